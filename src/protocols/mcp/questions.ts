import { randomBytes } from 'node:crypto'
import type { Clock } from '#kernel/base/clock'
import type { Elicit, Elicitation, ElicitationAnswer, ElicitationMode } from '#kernel/base/elicitation'
import { fault } from '#kernel/base/errors'
import { isJsonObject, type JsonObject } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { CallReply } from '#kernel/call/call'
import { callReplyHeaders } from '#protocols/call-wire'
import { createSchemaValidator } from '#schema/validator'
import type { ProtocolSessionStore, QuestionAddress } from '#store/protocol-state'
import { type Answer, encodeRequest, errorAnswer } from './codec-message.ts'
import {
  findFormProblem,
  type KeyedQuestion,
  mayAsk,
  questionToJson,
  readAnswer,
  toWireQuestion,
} from './codec-question.ts'
import type { McpExchange } from './exchange.ts'
import { type ClientCapabilities, MCP_CODES, type Message } from './wire.ts'

/*
 * Questions that a running tool asks its caller, and how revisions with sessions send them.
 * `tool-calls.ts`, `revision-2026/` and `tasks/` use it.
 * Invariant: open questions are in the store, because another process may receive the answer (MCP-79).
 */

/** For revisions with sessions: a question is a request on the stream of the call, and its answer is a separate message (MCP-79). */
export class StreamAsker {
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

/** For revisions with sessions: an error that names the pages that a person has to open first (MCP/T-11). */
export function urlElicitationRequired(
  { id, revision }: McpExchange,
  questions: readonly AskedQuestion[],
  { reply, message }: { readonly reply: CallReply; readonly message: string },
): Answer {
  const elicitations = questions.map((asked) => toWireQuestion(asked.question, revision, asked.id).params)
  const data = { call_id: reply.callId, elicitations }
  const error = { code: MCP_CODES.urlElicitationRequired, message, data }
  return errorAnswer(id, error, { headers: callReplyHeaders(reply) })
}

export interface AskedQuestion {
  readonly id: string
  readonly question: KeyedQuestion
}

export type AskKeyed = (question: KeyedQuestion) => Promise<ElicitationAnswer>

/** Time limit for an answer; after it the tool gets `cancel` (MCP-79). */
export const QUESTION_MS = 10 * 60_000
/** How often the store is read for an answer that another process received. */
const POLL_MS = 250
const ID_BYTES = 18

export interface OpenedQuestion extends AskedQuestion {
  readonly answer: Promise<ElicitationAnswer>
}

/** The call that asks, and the only principal that may answer. */
interface Asking {
  readonly principal: Principal
  readonly callId: string
  /** Aborted when the call no longer waits for the answer. */
  readonly ended: AbortSignal
}

export class Questions {
  readonly #callers: ProtocolSessionStore
  readonly #clock: Clock
  readonly #waiting = new Map<string, () => void>()

  constructor(callers: ProtocolSessionStore, clock: Clock) {
    this.#callers = callers
    this.#clock = clock
  }

  async open(question: KeyedQuestion, { principal, callId, ended }: Asking): Promise<OpenedQuestion> {
    const problem = question.mode === 'form' ? findFormProblem(question.message, question.schema) : undefined
    if (problem !== undefined) {
      throw fault('tool_failed', 'The tool asked its caller a question that is not allowed.', {
        developerMessage: `A form cannot be sent: ${problem}.`,
      })
    }
    const address = { tenant: principal.tenant, id: randomBytes(ID_BYTES).toString('base64url') }
    const expiresAtMs = this.#clock.nowMs() + QUESTION_MS
    await this.#callers.ask({
      ...address,
      principal: principal.id,
      callId,
      question: questionToJson(question),
      expiresAtMs,
    })
    return { id: address.id, question, answer: this.#await(question, address, ended) }
  }

  /** Stores an answer without checking it; `false` if this principal has no such open question. */
  async deliver(id: string, principal: Principal, result: JsonObject): Promise<boolean> {
    const address = { tenant: principal.tenant, id }
    const isTaken = await this.#callers.answer(address, principal.id, result)
    if (isTaken) this.#waiting.get(questionKey(address))?.()
    return isTaken
  }

  /** Takes the response to a question that was sent as a request; an error response means `cancel` (MCP-79). */
  async deliverResponse(
    principal: Principal,
    { id, result }: Message & { readonly kind: 'response' },
  ): Promise<void> {
    if (typeof id === 'string')
      await this.deliver(id, principal, isJsonObject(result) ? result : { action: 'cancel' })
  }

  async #await(
    question: Elicitation,
    address: QuestionAddress,
    ended: AbortSignal,
  ): Promise<ElicitationAnswer> {
    const key = questionKey(address)
    const untilMs = this.#clock.monotonicMs() + QUESTION_MS
    try {
      while (!ended.aborted && this.#clock.monotonicMs() < untilMs) {
        const found = await this.#callers.findAnswer(address)
        if (found !== undefined) return readAnswer(question, found) ?? { action: 'cancel' }
        await this.#next(key, ended)
      }
      return { action: 'cancel' }
    } finally {
      await this.#callers.endQuestion(address)
    }
  }

  #next(key: string, ended: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer)
        this.#waiting.delete(key)
        ended.removeEventListener('abort', wake)
        resolve()
      }
      const timer = setTimeout(wake, POLL_MS)
      ended.addEventListener('abort', wake, { once: true })
      this.#waiting.set(key, wake)
    })
  }
}

/** Records the mode of the last question that the client does not support (MCP-36). */
export interface CapabilityWatch {
  missing: ElicitationMode | undefined
}

export const DECLINED: ElicitationAnswer = { action: 'decline' }

/** Sends only questions that the client supports, and declines the others (MCP/T-11). Numbers the questions without a key. */
export function askGuard(ask: AskKeyed, capabilities: ClientCapabilities, watch: CapabilityWatch): Elicit {
  let asked = 0
  return async (question) => {
    asked += 1
    if (mayAsk(question, capabilities))
      return await ask({ ...question, key: question.key ?? `question_${asked}` })
    watch.missing = question.mode
    return DECLINED
  }
}

/** False for an accepted form whose content does not match its schema (MCP-74). */
export function fitsQuestion(question: Elicitation, answer: ElicitationAnswer): boolean {
  if (question.mode !== 'form' || answer.action !== 'accept') return true
  return createSchemaValidator(question.schema, { untrusted: true })(answer.content ?? {}).length === 0
}

function questionKey({ tenant, id }: QuestionAddress): string {
  return JSON.stringify([tenant, id])
}
