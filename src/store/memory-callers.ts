import type { JsonObject } from '#core/json'
import {
  CALLER_REQUEST_KEPT_MS,
  CALLER_SESSION_IDLE_MS,
  type CallerRequest,
  type CallerSession,
  type CallerStore,
  type NewQuestion,
  type OpenQuestion,
  type QuestionAddress,
  type SessionRoom,
} from '#core/ports/protocol-store'

interface Asked extends NewQuestion {
  answer: JsonObject | undefined
}

/** The memory store's callers: they hold for one process, as everything there does. */
export class MemoryCallers implements CallerStore {
  readonly #sessions = new Map<string, CallerSession>()
  readonly #requests = new Map<string, { isCancelled: boolean; readonly beganAtMs: number }>()
  readonly #questions = new Map<string, Asked>()
  readonly #marks = new Map<string, number>()

  openSession(session: CallerSession, room?: SessionRoom): boolean {
    if (room !== undefined && !this.#makeRoom(session, room)) return false
    this.#sessions.set(keyOf(session.tenant, session.id), session)
    return true
  }

  #makeRoom({ tenant, principal }: CallerSession, { most, idleBeforeMs }: SessionRoom): boolean {
    const own = [...this.#sessions.values()].filter(
      (session) => session.tenant === tenant && session.principal === principal,
    )
    if (own.length < most) return true
    const oldest = own.sort((left, right) => left.touchedAtMs - right.touchedAtMs)[0]
    if (oldest === undefined || oldest.touchedAtMs >= idleBeforeMs) return false
    return this.endSession(tenant, oldest.id)
  }

  findSession(tenant: string, id: string): CallerSession | undefined {
    return this.#sessions.get(keyOf(tenant, id))
  }

  touchSession(tenant: string, id: string, touchedAtMs: number): void {
    const session = this.findSession(tenant, id)
    if (session !== undefined) this.openSession({ ...session, touchedAtMs })
  }

  endSession(tenant: string, id: string): boolean {
    return this.#sessions.delete(keyOf(tenant, id))
  }

  beginRequest(request: CallerRequest, beganAtMs: number): void {
    this.#requests.set(requestKey(request), { isCancelled: false, beganAtMs })
  }

  cancelRequest(request: CallerRequest): boolean {
    const found = this.#requests.get(requestKey(request))
    if (found === undefined) return false
    found.isCancelled = true
    return true
  }

  isCancelled(request: CallerRequest): boolean {
    return this.#requests.get(requestKey(request))?.isCancelled ?? false
  }

  endRequest(request: CallerRequest): void {
    this.#requests.delete(requestKey(request))
  }

  ask(question: NewQuestion): void {
    this.#questions.set(keyOf(question.tenant, question.id), { ...question, answer: undefined })
  }

  answer(to: QuestionAddress, principal: string, answer: JsonObject): boolean {
    const asked = this.#questions.get(keyOf(to.tenant, to.id))
    if (asked === undefined || asked.principal !== principal || asked.answer !== undefined) return false
    asked.answer = answer
    return true
  }

  findAnswer(to: QuestionAddress): JsonObject | undefined {
    return this.#questions.get(keyOf(to.tenant, to.id))?.answer
  }

  openQuestions(tenant: string, principal: string, callId: string): readonly OpenQuestion[] {
    return [...this.#questions.values()].filter(
      (asked) =>
        asked.tenant === tenant &&
        asked.principal === principal &&
        asked.callId === callId &&
        asked.answer === undefined,
    )
  }

  endQuestion({ tenant, id }: QuestionAddress): void {
    this.#questions.delete(keyOf(tenant, id))
  }

  spend(tenant: string, mark: string, expiresAtMs: number): boolean {
    const key = keyOf(tenant, mark)
    if (this.#marks.has(key)) return false
    this.#marks.set(key, expiresAtMs)
    return true
  }

  forget(nowMs: number): void {
    for (const [key, { touchedAtMs }] of this.#sessions)
      if (touchedAtMs < nowMs - CALLER_SESSION_IDLE_MS) this.#sessions.delete(key)
    for (const [key, { beganAtMs }] of this.#requests)
      if (beganAtMs < nowMs - CALLER_REQUEST_KEPT_MS) this.#requests.delete(key)
    for (const [key, { expiresAtMs }] of this.#questions) if (expiresAtMs < nowMs) this.#questions.delete(key)
    for (const [key, expiresAtMs] of this.#marks) if (expiresAtMs < nowMs) this.#marks.delete(key)
  }
}

function keyOf(tenant: string, id: string): string {
  return JSON.stringify([tenant, id])
}

function requestKey({ tenant, session, requestId }: CallerRequest): string {
  return JSON.stringify([tenant, session, requestId])
}
