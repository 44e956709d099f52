import { setTimeout as pause } from 'node:timers/promises'
import type { JsonObject } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { CallReply } from '#kernel/call/call'
import { readAnswer } from '#protocols/mcp/codec-question'
import { type AskKeyed, fitsQuestion, type OpenedQuestion, type Questions } from '#protocols/mcp/questions'

/*
 * Calls that continue after their request is answered: with questions, whose answers come in a later request (2026-07-28, MCP-70 to
 * MCP-75), or with a task (MCP-120 to MCP-129).
 * `tool-calls.ts` starts them; `multi-round-calls.ts` and `tasks/` find them again.
 * Invariant: only the request that waits last can cancel the call by disconnecting.
 */

/** Questions that follow each other within this time are sent together. */
const GATHER_MS = 20

export type PendingStep =
  | { readonly kind: 'asks'; readonly questions: readonly OpenedQuestion[] }
  | { readonly kind: 'done'; readonly reply: CallReply }
  /** The call takes longer than the request waits. */
  | { readonly kind: 'late' }

/** A call that waits for answers or continues as a task. It runs in this process. */
export class PendingCall {
  readonly #freshId: string
  readonly #principal: Principal
  readonly #questions: Questions
  /** Answers that came with the request, by key; each answers one question (MCP-75). */
  readonly #early: Map<string, JsonObject>
  readonly #left = new AbortController()
  readonly #ended = new AbortController()
  readonly #open = new Map<string, OpenedQuestion>()
  #done: Promise<CallReply> | undefined
  #isDone = false
  #wake: (() => void) | undefined
  #attached: AbortSignal | undefined
  #adopted: string | undefined

  constructor(options: {
    readonly callId: string
    readonly principal: Principal
    readonly questions: Questions
    readonly early: ReadonlyMap<string, JsonObject> | undefined
  }) {
    this.#freshId = options.callId
    this.#principal = options.principal
    this.#questions = options.questions
    this.#early = new Map(options.early)
  }

  get callId(): string {
    return this.#adopted ?? this.#freshId
  }

  /** Called if the call continues an earlier one, whose id it then has (rule 6). */
  readonly adopt = (callId: string): void => {
    this.#adopted = callId
  }

  /** Resolves with the reply when the call ends. */
  get done(): Promise<CallReply> {
    return this.#done ?? Promise.reject(new Error('the call was not started'))
  }

  /** Aborted when the client of the waiting request disconnects. */
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
      const answer = await opened.answer
      // In sessions answers are separate messages, which were not checked before (MCP-79).
      return fitsQuestion(question, answer) ? answer : { action: 'cancel' }
    } finally {
      this.#open.delete(opened.id)
    }
  }

  /** Marks a question as answered, so that it is not asked again while its answer is delivered. */
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

  /** Waits at most `maxMs` for the end of the call or for questions. Meanwhile, a disconnect of this request cancels the call (MCP-83). */
  async next(left: AbortSignal | undefined, maxMs?: number): Promise<PendingStep> {
    this.#attached = left
    const leave = (): void => {
      if (this.#attached === left) this.#left.abort()
    }
    left?.addEventListener('abort', leave, { once: true })
    if (left?.aborted === true) leave()
    let isLate = false
    const end = (): void => {
      isLate = true
      this.#wake?.()
    }
    const timer = maxMs === undefined ? undefined : setTimeout(end, maxMs)
    try {
      return await this.#step(() => isLate)
    } finally {
      clearTimeout(timer)
      left?.removeEventListener('abort', leave)
    }
  }

  async #gather(): Promise<void> {
    for (let count = 0; count < this.#open.size && !this.#isDone; ) {
      count = this.#open.size
      await pause(GATHER_MS)
    }
  }

  async #step(isLate: () => boolean): Promise<PendingStep> {
    for (;;) {
      if (!this.#isDone && this.#open.size === 0 && !isLate()) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
        this.#wake = undefined
      }
      // Questions that arise together are sent together. An upstream with sessions sends them one by one, so this waits a little.
      if (!this.#isDone && this.#open.size > 0) await this.#gather()
      if (this.#isDone && this.#done !== undefined) return { kind: 'done', reply: await this.#done }
      if (this.#open.size > 0) return { kind: 'asks', questions: this.openQuestions }
      if (isLate()) return { kind: 'late' }
    }
  }
}

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
