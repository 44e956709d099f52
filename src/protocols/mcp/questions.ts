import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '#kernel/base/clock'
import type { Elicitation, ElicitationAnswer } from '#kernel/base/elicitation'
import { fault } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { CallReply } from '#kernel/call/call'
import { createSchemaValidator } from '#schema/validator'
import type { ProtocolSessionStore, QuestionAddress } from '#store/ports/protocol-store'
import { encodeRequest } from './codec-message.ts'
import {
  findFormProblem,
  type KeyedQuestion,
  questionToJson,
  readAnswer,
  toWireQuestion,
} from './codec-question.ts'
import type { McpExchange } from './exchange.ts'

/** Older revisions: a question is a request of ours on the stream of the call, its answer a message of its own (MCP-79). */
export class LegacyAsker {
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

export type PendingStep =
  | { readonly kind: 'asks'; readonly questions: readonly OpenedQuestion[] }
  | { readonly kind: 'done'; readonly reply: CallReply }

/**
 * A call of the newest revision that may ask: its request is answered with the questions, its run goes on waiting, and
 * a later request brings the answers (MCP-70 to MCP-75).
 */
export class PendingCall {
  readonly callId: string
  readonly #principal: Principal
  readonly #questions: Questions
  /** Answers that came with the request, by key; each is good for one question (MCP-75). */
  readonly #early: Map<string, JsonObject>
  readonly #left = new AbortController()
  readonly #ended = new AbortController()
  readonly #open = new Map<string, OpenedQuestion>()
  #done: Promise<CallReply> | undefined
  #isDone = false
  #wake: (() => void) | undefined
  #attached: AbortSignal | undefined

  constructor(options: {
    readonly callId: string
    readonly principal: Principal
    readonly questions: Questions
    readonly early: ReadonlyMap<string, JsonObject> | undefined
  }) {
    this.callId = options.callId
    this.#principal = options.principal
    this.#questions = options.questions
    this.#early = new Map(options.early)
  }

  /** Aborted when the request that waits for it leaves. */
  get left(): AbortSignal {
    return this.#left.signal
  }

  get isDone(): boolean {
    return this.#isDone
  }

  get openQuestions(): readonly OpenedQuestion[] {
    return [...this.#open.values()]
  }

  readonly ask: AskKeyed = async (question) => {
    const early = this.#early.get(question.key)
    this.#early.delete(question.key)
    const known = early === undefined ? undefined : readAnswer(question, early)
    if (known !== undefined && fitsQuestion(question, known)) return known
    const opened = await this.#questions.open(question, {
      principal: this.#principal,
      callId: this.callId,
      ended: this.#ended.signal,
    })
    this.#open.set(opened.id, opened)
    this.#wake?.()
    try {
      return await opened.answer
    } finally {
      this.#open.delete(opened.id)
    }
  }

  /** Its answer is on the way to the run: it is not asked again. */
  answered(id: string): void {
    this.#open.delete(id)
  }

  start(reply: Promise<CallReply>): void {
    this.#done = reply
    const end = (): void => {
      this.#isDone = true
      this.#ended.abort()
      this.#wake?.()
    }
    reply.then(end, end)
  }

  /** The request that waits now: its leaving cancels the call, until it is answered (MCP-83). */
  async next(left: AbortSignal | undefined): Promise<PendingStep> {
    this.#attached = left
    const leave = (): void => {
      if (this.#attached === left) this.#left.abort()
    }
    left?.addEventListener('abort', leave, { once: true })
    if (left?.aborted === true) leave()
    try {
      return await this.#step()
    } finally {
      left?.removeEventListener('abort', leave)
    }
  }

  async #step(): Promise<PendingStep> {
    for (;;) {
      if (!this.#isDone && this.#open.size === 0) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
        this.#wake = undefined
      }
      // Questions that are asked together go out together.
      if (!this.#isDone) await nextTurn()
      if (this.#isDone && this.#done !== undefined) return { kind: 'done', reply: await this.#done }
      if (this.#open.size > 0) return { kind: 'asks', questions: this.openQuestions }
    }
  }
}

/** Calls that wait in this process for answers of a later request. */
export class PendingCalls {
  readonly #byCall = new Map<string, PendingCall>()

  add(principal: Principal, call: PendingCall): void {
    this.#byCall.set(callKey(principal, call.callId), call)
  }

  find(principal: Principal, callId: string): PendingCall | undefined {
    return this.#byCall.get(callKey(principal, callId))
  }

  remove(principal: Principal, call: PendingCall): void {
    const key = callKey(principal, call.callId)
    if (this.#byCall.get(key) === call) this.#byCall.delete(key)
  }
}

function callKey({ tenant, id }: Principal, callId: string): string {
  return JSON.stringify([tenant, id, callId])
}

export type AskKeyed = (question: KeyedQuestion) => Promise<ElicitationAnswer>

/** How long a person may take; the run goes on with `cancel` after that (MCP-79). */
export const QUESTION_MS = 10 * 60_000
/** How soon an answer that another process took is seen. */
const POLL_MS = 250
const ID_BYTES = 18

interface OpenedQuestion {
  readonly id: string
  readonly question: KeyedQuestion
  readonly answer: Promise<ElicitationAnswer>
}

/** Who asks: the call, and the principal that alone may answer. */
interface Asking {
  readonly principal: Principal
  readonly callId: string
  /** Aborted when nobody waits for the answer any more. */
  readonly ended: AbortSignal
}

/** Questions of running calls. They lie in the store, because the answer may reach another process (MCP-79). */
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
      throw fault('tool_failed', 'The tool asked its caller for something that cannot be asked.', {
        developerMessage: `A form cannot be asked: ${problem}.`,
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

  /** What came, as it came; `false` when there is no such open question of this principal. */
  async deliver(id: string, principal: Principal, result: JsonObject): Promise<boolean> {
    const address = { tenant: principal.tenant, id }
    const isTaken = await this.#callers.answer(address, principal.id, result)
    if (isTaken) this.#waiting.get(questionKey(address))?.()
    return isTaken
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

/** Whether an accepted form holds what was asked for (MCP-74). */
export function fitsQuestion(question: Elicitation, answer: ElicitationAnswer): boolean {
  if (question.mode !== 'form' || answer.action !== 'accept') return true
  return createSchemaValidator(question.schema, { untrusted: true })(answer.content ?? {}).length === 0
}

function questionKey({ tenant, id }: QuestionAddress): string {
  return JSON.stringify([tenant, id])
}
