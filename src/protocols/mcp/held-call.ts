import { setImmediate as nextTurn } from 'node:timers/promises'
import type { CallReply } from '#core/call'
import type { JsonObject } from '#core/json'
import type { Principal } from '#core/principal'
import type { AskKeyed } from './capability-watch.ts'
import { readAnswer } from './codec-question.ts'
import { fitsQuestion, type OpenedQuestion, type Questions } from './questions.ts'

export type HeldStep =
  | { readonly kind: 'asks'; readonly questions: readonly OpenedQuestion[] }
  | { readonly kind: 'done'; readonly reply: CallReply }

/**
 * A call of the newest revision that may ask: its request is answered with the questions, its run goes on waiting, and
 * a later request brings the answers (MCP-70 to MCP-75).
 */
export class HeldCall {
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

  /** Aborted when whoever waits for it leaves. */
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
  async next(left: AbortSignal | undefined): Promise<HeldStep> {
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

  async #step(): Promise<HeldStep> {
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
export class HeldCalls {
  readonly #byCall = new Map<string, HeldCall>()

  add(principal: Principal, call: HeldCall): void {
    this.#byCall.set(keyOf(principal, call.callId), call)
  }

  find(principal: Principal, callId: string): HeldCall | undefined {
    return this.#byCall.get(keyOf(principal, callId))
  }

  remove(principal: Principal, call: HeldCall): void {
    const key = keyOf(principal, call.callId)
    if (this.#byCall.get(key) === call) this.#byCall.delete(key)
  }
}

function keyOf({ tenant, id }: Principal, callId: string): string {
  return JSON.stringify([tenant, id, callId])
}
