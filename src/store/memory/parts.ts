import {
  endedEvent,
  resumedEvent,
  sourcePutEvent,
  sourceRemovedEvent,
  suspendedEvent,
} from '#core/journal/append'
import type { JournalEvent, JournalGroup, JournalHead } from '#core/journal/events'
import type { JsonObject } from '#core/json'
import { grantOf, NOTHING, perUnit } from '#core/limits/budgets'
import type { EndedParked } from '#core/ports/approval-store'
import {
  type NewSource,
  nextRevision,
  type PinnedSource,
  type PinRecord,
  type PinStore,
  type PinWrite,
  type SourceRemoval,
  type SourceStore,
  type StoredSource,
} from '#core/ports/import-store'
import {
  type BegunRequest,
  type BudgetStore,
  type BudgetWindow,
  CALLER_REQUEST_KEPT_MS,
  CALLER_SESSION_IDLE_MS,
  type CallerRequest,
  type CallerSession,
  type IdempotentRequestStore,
  type KeptReply,
  type NewQuestion,
  type NewRequest,
  type OpenQuestion,
  type ProtocolSessionStore,
  type QuestionAddress,
  type RequestAddress,
  type SessionRoom,
  type Spending,
} from '#core/ports/protocol-store'
import type {
  Attempt,
  CallAddress,
  CallRecord,
  ClaimResult,
  FinishResult,
  Suspending,
  WorkflowStore,
} from '#core/ports/store'
import { endSuspended } from '#core/workflow/suspend'
import { BUDGETS_KEPT_MS } from '#store/protocol-state'
import type { MemoryRow, MemoryRunEvents } from './runs.ts'

interface Parts {
  readonly rows: ReadonlyMap<string, MemoryRow>
  readonly runEvents: MemoryRunEvents
  readonly writer: string
  append(event: JournalEvent): void
}

/** The memory store's workflows that are put away, with the same rules as any other's. */
export class MemoryWorkflows implements WorkflowStore {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  suspend(run: Attempt, { waitsFor, atMs }: Suspending): FinishResult {
    const row = this.#row(run.record)
    if (row.state !== 'running' || row.attempt !== run.attempt || !row.resumable) {
      return { kind: 'found', record: { ...row } }
    }
    row.state = 'parked'
    row.waitsFor = waitsFor
    this.#parts.append(suspendedEvent(row, waitsFor, atMs))
    return { kind: 'recorded' }
  }

  resume(
    seen: CallRecord,
    { atMs, rerunUntilMs }: { readonly atMs: number; readonly rerunUntilMs: number },
  ): ClaimResult {
    const row = this.#row(seen.record)
    if (!isPutAway(row) || row.attempt !== seen.attempt) return { kind: 'found', record: { ...row } }
    row.state = 'running'
    row.waitsFor = undefined
    row.writer = this.#parts.writer
    row.cancelRequested = false
    row.rerunUntilMs = rerunUntilMs
    this.#parts.append(resumedEvent(row, atMs))
    return { kind: 'claimed', attempt: row.attempt }
  }

  cancel({ tenant, record }: CallAddress, _by: string, atMs: number): readonly EndedParked[] {
    const row = this.#parts.rows.get(record)
    if (row === undefined || row.tenant !== tenant || !isPutAway(row)) return []
    return [this.#end(row, 'cancelled', atMs)]
  }

  expire(nowMs: number): readonly EndedParked[] {
    return [...this.#parts.rows.values()]
      .filter((row) => isPutAway(row) && row.rerunUntilMs <= nowMs)
      .map((row) => this.#end(row, 'expired', nowMs))
  }

  openSteps({ tenant, record }: CallAddress): readonly CallAddress[] {
    return [...this.#parts.rows.values()]
      .filter((row) => row.parent === record && row.tenant === tenant)
      .filter(({ state }) => state === 'running' || state === 'parked')
      .map((row) => ({ tenant: row.tenant, record: row.record }))
  }

  #end(row: MemoryRow, why: 'cancelled' | 'expired', atMs: number): EndedParked {
    const { runEvents, append } = this.#parts
    const outcome = endSuspended(row.tool, why)
    row.state = 'failed'
    row.waitsFor = undefined
    row.outcome = outcome
    row.finishedAtMs = atMs
    const ended = endedEvent(row, row.attempt, { state: 'failed', outcome, atMs })
    append({ ...ended, ...runEvents.end(row, outcome, atMs) })
    return { record: row.record, run: row.run ?? row.record }
  }

  #row(record: string): MemoryRow {
    const row = this.#parts.rows.get(record)
    if (row === undefined) throw new Error('the workflow to change is gone')
    return row
  }
}

function isPutAway({ state, waitsFor }: MemoryRow): boolean {
  return state === 'parked' && waitsFor !== undefined
}

/** The memory store's sources: nothing is written anywhere, so nothing is sealed. */
export class MemorySources implements SourceStore {
  readonly #sources = new Map<string, StoredSource>()
  readonly #append: (event: JournalEvent) => void
  #epoch = 0

  constructor(append: (event: JournalEvent) => void) {
    this.#append = append
  }

  list(): readonly StoredSource[] {
    return [...this.#sources.values()].sort((left, right) => (left.key < right.key ? -1 : 1))
  }

  put(source: NewSource): 'added' | 'replaced' | 'exists' {
    const { replace, ...stored } = source
    const isThere = this.#sources.has(source.key)
    if (isThere && !replace) return 'exists'
    this.#sources.set(source.key, { ...stored, options: structuredClone(stored.options) })
    const result = isThere ? 'replaced' : 'added'
    this.#change(sourcePutEvent(source, result))
    return result
  }

  remove(removal: SourceRemoval): boolean {
    if (!this.#sources.delete(removal.key)) return false
    this.#change(sourceRemovedEvent(removal))
    return true
  }

  epoch(): number {
    return this.#epoch
  }

  #change(event: JournalEvent): void {
    this.#epoch += 1
    this.#append(event)
  }
}

interface Begun {
  readonly asked: string
  readonly expiresAtMs: number
  readonly reply: KeptReply | undefined
}

/** The memory store's requests: they hold for one process, which is their only writer. */
export class MemoryRequests implements IdempotentRequestStore {
  readonly #requests = new Map<string, Begun>()
  readonly #writer: string

  constructor(writer: string) {
    this.#writer = writer
  }

  begin({ asked, expiresAtMs, insteadOf, ...address }: NewRequest): BegunRequest {
    const found = this.#requests.get(keyOfInMemoryRequests(address))
    if (found !== undefined && found.asked !== asked) return { kind: 'mismatch' }
    if (found?.reply !== undefined) return { kind: 'answered', reply: found.reply }
    if (found !== undefined && insteadOf !== this.#writer) return { kind: 'under_way', writer: this.#writer }
    this.#requests.set(keyOfInMemoryRequests(address), { asked, expiresAtMs, reply: undefined })
    return { kind: 'begun' }
  }

  answer(to: RequestAddress, reply: KeptReply, expiresAtMs: number): void {
    const found = this.#requests.get(keyOfInMemoryRequests(to))
    if (found === undefined || found.reply !== undefined) return
    this.#requests.set(keyOfInMemoryRequests(to), { ...found, reply, expiresAtMs })
  }

  release(address: RequestAddress): void {
    if (this.#requests.get(keyOfInMemoryRequests(address))?.reply === undefined)
      this.#requests.delete(keyOfInMemoryRequests(address))
  }

  forget(nowMs: number): void {
    for (const [key, { expiresAtMs }] of this.#requests) if (expiresAtMs < nowMs) this.#requests.delete(key)
  }
}

function keyOfInMemoryRequests({ tenant, id }: RequestAddress): string {
  return JSON.stringify([tenant, id])
}

interface KeptSource {
  revision: number
  readonly pins: Map<string, PinRecord>
}

/** The memory store's pins, with the same rules as any other's. */
export class MemoryPins implements PinStore {
  readonly #sources = new Map<string, KeptSource>()
  readonly #append: (event: JournalEvent) => void
  #epoch = 0

  constructor(append: (event: JournalEvent) => void) {
    this.#append = append
  }

  read(source: string): PinnedSource {
    const kept = this.#sources.get(source)
    const pins = [...(kept?.pins.values() ?? [])].sort((left, right) =>
      left.nativeName < right.nativeName ? -1 : 1,
    )
    return { source, revision: kept?.revision ?? 0, pins }
  }

  revision(source: string): number {
    return this.#sources.get(source)?.revision ?? 0
  }

  write(change: PinWrite): 'written' | 'stale' {
    const { source, seen, pins, changesServed, events } = change
    if (this.revision(source) !== seen) return 'stale'
    const kept = this.#sources.get(source) ?? { revision: 0, pins: new Map<string, PinRecord>() }
    this.#sources.set(source, kept)
    kept.revision = nextRevision(change)
    for (const pin of pins) kept.pins.set(pin.nativeName, pin)
    if (changesServed) this.#epoch += 1
    for (const event of events) this.#append(event)
    return 'written'
  }

  sources(): readonly string[] {
    return [...this.#sources.keys()].sort()
  }

  epoch(): number {
    return this.#epoch
  }
}

/** The journal of the memory store: a group an event, without links. */
export class MemoryJournal {
  readonly #writer: string
  readonly #groups: JournalGroup[] = []
  #last = -1

  constructor(writer: string) {
    this.#writer = writer
  }

  readonly append = (event: JournalEvent): void => {
    this.#last += 1
    this.#groups.push({ writer: this.#writer, group: this.#last, link: '', atMs: event.at, events: [event] })
  }

  read(after: readonly JournalHead[], limit: number): readonly JournalGroup[] {
    const next = (after.find(({ writer }) => writer === this.#writer)?.group ?? -1) + 1
    const first = this.#groups[0]?.group ?? 0
    const start = Math.max(0, next - first)
    return this.#groups.slice(start, start + limit)
  }

  forget(beforeMs: number): void {
    const kept = this.#groups.findIndex(({ atMs }) => atMs >= beforeMs)
    this.#groups.splice(0, kept === -1 ? this.#groups.length : kept)
  }
}

interface Asked extends NewQuestion {
  answer: JsonObject | undefined
}

/** The memory store's callers: they hold for one process, as everything there does. */
export class MemoryCallers implements ProtocolSessionStore {
  readonly #sessions = new Map<string, CallerSession>()
  readonly #requests = new Map<string, { isCancelled: boolean; readonly beganAtMs: number }>()
  readonly #questions = new Map<string, Asked>()
  readonly #marks = new Map<string, number>()

  openSession(session: CallerSession, room?: SessionRoom): boolean {
    if (room !== undefined && !this.#makeRoom(session, room)) return false
    this.#sessions.set(keyOfInMemoryCallers(session.tenant, session.id), session)
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
    return this.#sessions.get(keyOfInMemoryCallers(tenant, id))
  }

  touchSession(tenant: string, id: string, touchedAtMs: number): void {
    const session = this.findSession(tenant, id)
    if (session !== undefined) this.openSession({ ...session, touchedAtMs })
  }

  endSession(tenant: string, id: string): boolean {
    return this.#sessions.delete(keyOfInMemoryCallers(tenant, id))
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
    this.#questions.set(keyOfInMemoryCallers(question.tenant, question.id), {
      ...question,
      answer: undefined,
    })
  }

  answer(to: QuestionAddress, principal: string, answer: JsonObject): boolean {
    const asked = this.#questions.get(keyOfInMemoryCallers(to.tenant, to.id))
    if (asked === undefined || asked.principal !== principal || asked.answer !== undefined) return false
    asked.answer = answer
    return true
  }

  findAnswer(to: QuestionAddress): JsonObject | undefined {
    return this.#questions.get(keyOfInMemoryCallers(to.tenant, to.id))?.answer
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
    this.#questions.delete(keyOfInMemoryCallers(tenant, id))
  }

  spend(tenant: string, mark: string, expiresAtMs: number): boolean {
    const key = keyOfInMemoryCallers(tenant, mark)
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

function keyOfInMemoryCallers(tenant: string, id: string): string {
  return JSON.stringify([tenant, id])
}

function requestKey({ tenant, session, requestId }: CallerRequest): string {
  return JSON.stringify([tenant, session, requestId])
}

interface Handed {
  readonly endsAtMs: number
  used: Spending
}

/** The memory store's budgets: they hold for one process, as everything there does. */
export class MemoryBudgets implements BudgetStore {
  readonly #windows = new Map<string, Handed>()

  lease(window: BudgetWindow, wanted: Spending, limit: Spending): Spending {
    const handed = this.#handed(window)
    const granted = grantOf(wanted, limit, handed.used)
    handed.used = perUnit((unit) => handed.used[unit] + granted[unit])
    return granted
  }

  giveBack(window: BudgetWindow, unspent: Spending): void {
    const handed = this.#handed(window)
    handed.used = perUnit((unit) => Math.max(0, handed.used[unit] - unspent[unit]))
  }

  read(window: BudgetWindow): Spending {
    return this.#windows.get(keyOf(window))?.used ?? NOTHING
  }

  forget(nowMs: number): void {
    for (const [key, { endsAtMs }] of this.#windows) {
      if (endsAtMs < nowMs - BUDGETS_KEPT_MS) this.#windows.delete(key)
    }
  }

  #handed(window: BudgetWindow): Handed {
    const key = keyOf(window)
    const known = this.#windows.get(key)
    if (known !== undefined) return known
    const handed = { endsAtMs: window.startMs + window.lengthMs, used: NOTHING }
    this.#windows.set(key, handed)
    return handed
  }
}

function keyOf({ tenant, principal, lengthMs, startMs }: BudgetWindow): string {
  return JSON.stringify([tenant, principal ?? null, lengthMs, startMs])
}
