import type { AskKeyed } from './capability-watch.ts'
import { encodeRequest } from './codec-answer.ts'
import { toWireQuestion } from './codec-question.ts'
import type { McpExchange } from './exchange.ts'
import { fitsQuestion, type Questions } from './questions.ts'

/** Older revisions: a question is a request of ours on the stream of the call, its answer a message of its own (MCP-79). */
export class OldAsker {
  readonly #exchange: McpExchange
  readonly #callId: string
  readonly #questions: Questions
  readonly #ended = new AbortController()

  constructor(options: {
    readonly exchange: McpExchange
    readonly callId: string
    readonly questions: Questions
  }) {
    this.#exchange = options.exchange
    this.#callId = options.callId
    this.#questions = options.questions
  }

  readonly ask: AskKeyed = async (question) => {
    const { principal, revision, channel } = this.#exchange
    const ended = this.#ended.signal
    const opened = await this.#questions.open(question, { principal, callId: this.#callId, ended })
    const { method, params } = toWireQuestion(question, revision, opened.id)
    channel.send(encodeRequest(opened.id, method, params), 'question')
    const answer = await opened.answer
    return fitsQuestion(question, answer) ? answer : { action: 'cancel' }
  }

  end(): void {
    this.#ended.abort()
  }
}
