import { randomBytes } from 'node:crypto'
import { fault } from '#core/errors'
import type { JsonObject } from '#core/json'
import type { CallerStore, QuestionAddress } from '#core/ports/protocol-store'
import type { Principal } from '#core/principal'
import type { Clock, Elicitation, ElicitationAnswer } from '#core/runtime'
import { createSchemaValidator } from '#core/schema/validator'
import { findFormProblem } from './codec-form.ts'
import { type KeyedQuestion, questionToJson, readAnswer } from './codec-question.ts'

/** How long a person may take; whoever asks goes on with `cancel` after that (MCP-79). */
export const QUESTION_MS = 10 * 60_000
/** How soon an answer that another process took is seen. */
const POLL_MS = 250
const ID_BYTES = 18

export interface OpenedQuestion {
  readonly id: string
  readonly question: KeyedQuestion
  readonly answer: Promise<ElicitationAnswer>
}

/** Who asks: the call, and the principal that alone may answer. */
export interface Asking {
  readonly principal: Principal
  readonly callId: string
  /** Aborted when nobody waits for the answer any more. */
  readonly ended: AbortSignal
}

/** Questions of running calls. They lie in the store, because the answer may reach another process (MCP-79). */
export class Questions {
  readonly #callers: CallerStore
  readonly #clock: Clock
  readonly #waiting = new Map<string, () => void>()

  constructor(callers: CallerStore, clock: Clock) {
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
    if (isTaken) this.#waiting.get(keyOf(address))?.()
    return isTaken
  }

  async #await(
    question: Elicitation,
    address: QuestionAddress,
    ended: AbortSignal,
  ): Promise<ElicitationAnswer> {
    const key = keyOf(address)
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

function keyOf({ tenant, id }: QuestionAddress): string {
  return JSON.stringify([tenant, id])
}
