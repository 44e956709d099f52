import {
  denialEvent,
  endedEvent,
  keyEvent,
  principalEndedEvent,
  resumedEvent,
  sourcePutEvent,
  sourceRemovedEvent,
  suspendedEvent,
} from '#core/journal/append'
import type {
  ChallengeChanged,
  JournalEvent,
  JournalGroup,
  JournalHead,
  VaultChanged,
} from '#core/journal/events'
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
import type {
  AuditStore,
  Denial,
  DenialFilter,
  KeyChange,
  KeyFilter,
  KeyOwner,
  KeyRecord,
  KeyRotation,
  KeyStore,
  KeyUse,
  NewKey,
  RecordedDenial,
  StoredKey,
} from '#core/ports/key-store'
import {
  type BegunRequest,
  type BudgetStore,
  type BudgetWindow,
  CALLER_REQUEST_KEPT_MS,
  CALLER_SESSION_IDLE_MS,
  type CallerRequest,
  type CallerSession,
  type CallerStore,
  type KeptReply,
  type NewQuestion,
  type NewRequest,
  type OpenQuestion,
  type QuestionAddress,
  type RequestAddress,
  type RequestStore,
  type SessionRoom,
  type Spending,
} from '#core/ports/protocol-store'
import type {
  Attempt,
  CallAddress,
  CallRecord,
  ChallengeNeed,
  ChallengeRecord,
  ClaimResult,
  FinishResult,
  NewChallenge,
  Suspending,
  WorkflowStore,
} from '#core/ports/store'
import type {
  Consent,
  ConsentStore,
  NewCredential,
  RenewedCredential,
  VaultAddress,
  VaultEntry,
  VaultFacts,
  VaultStore,
} from '#core/ports/vault-store'
import { putAwayEnd } from '#core/workflow/suspend'
import { challengeKey } from '#store/consents'
import { BUDGETS_KEPT_MS } from '#store/protocol-state'
import { vaultChanged } from '#store/vault'
import {
  MemoryConsentRuns,
  type MemoryConsentRunsParts,
  type MemoryRow,
  type MemoryRunEvents,
} from './runs.ts'

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
    const outcome = putAwayEnd(row.tool, why)
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

interface Row {
  readonly entry: VaultEntry
  readonly leaseUntilMs: number
}

/** The memory store's vault: nothing is written anywhere, so nothing is sealed. */
export class MemoryVault implements VaultStore {
  readonly #rows = new Map<string, Row>()
  readonly #append: (event: JournalEvent) => void

  constructor(append: (event: JournalEvent) => void) {
    this.#append = append
  }

  put(credential: NewCredential): void {
    const { atMs, by: _by, ...given } = credential
    const name = nameOf(credential)
    const version = (this.#rows.get(name)?.entry.version ?? 0) + 1
    this.#rows.delete(name)
    this.#rows.set(name, {
      entry: { ...given, version, isSpent: false, createdAtMs: atMs, updatedAtMs: atMs },
      leaseUntilMs: 0,
    })
    this.#append(vaultChanged('vault.set', credential, atMs))
  }

  find(address: VaultAddress): VaultEntry | undefined {
    return this.#rows.get(nameOf(address))?.entry
  }

  lease(seen: VaultFacts, nowMs: number, untilMs: number): boolean {
    const row = this.#current(seen)
    if (row === undefined || row.leaseUntilMs > nowMs) return false
    this.#rows.set(nameOf(seen), { ...row, leaseUntilMs: untilMs })
    return true
  }

  unlease(seen: VaultFacts): void {
    const row = this.#current(seen)
    if (row !== undefined) this.#rows.set(nameOf(seen), { ...row, leaseUntilMs: 0 })
  }

  renew(seen: VaultFacts, { atMs, ...renewed }: RenewedCredential): boolean {
    return this.#change(seen, 'vault.renewed', { ...renewed, updatedAtMs: atMs })
  }

  spend(seen: VaultFacts, atMs: number): boolean {
    if (this.#current(seen)?.entry.isSpent !== false) return false
    return this.#change(seen, 'vault.spent', { value: undefined, isSpent: true, updatedAtMs: atMs })
  }

  remove(entry: VaultAddress & Pick<VaultFacts, 'ref'>, by: string, atMs: number): boolean {
    if (this.#rows.get(nameOf(entry))?.entry.ref !== entry.ref) return false
    this.#rows.delete(nameOf(entry))
    this.#append(vaultChanged('vault.removed', { ...entry, by }, atMs))
    return true
  }

  list({ tenant, limit }: { readonly tenant?: string; readonly limit: number }): readonly VaultFacts[] {
    return [...this.#rows.values()]
      .filter(({ entry }) => tenant === undefined || entry.tenant === tenant)
      .reverse()
      .slice(0, limit)
      .map(({ entry }) => factsOf(entry))
  }

  findByRef(ref: string): VaultFacts | undefined {
    const found = [...this.#rows.values()].find(({ entry }) => entry.ref === ref)
    return found === undefined ? undefined : factsOf(found.entry)
  }

  rotate(by: string, atMs: number): { readonly tenants: number; readonly entries: number } {
    const kept = [...this.#rows.values()].filter(({ entry }) => !entry.isSpent)
    const tenants = new Set([...this.#rows.values()].map(({ entry }) => entry.tenant)).size
    this.#append({ type: 'vault.rotated', at: atMs, by, tenants, entries: kept.length })
    return { tenants, entries: kept.length }
  }

  #current(seen: VaultFacts): Row | undefined {
    const row = this.#rows.get(nameOf(seen))
    return row?.entry.ref === seen.ref && row.entry.version === seen.version ? row : undefined
  }

  #change(
    seen: VaultFacts,
    type: VaultChanged['type'],
    change: Partial<VaultEntry> & { readonly updatedAtMs: number },
  ): boolean {
    const row = this.#current(seen)
    if (row === undefined) return false
    const entry = { ...row.entry, ...change, version: row.entry.version + 1 }
    this.#rows.set(nameOf(seen), { entry, leaseUntilMs: 0 })
    this.#append(vaultChanged(type, entry, change.updatedAtMs))
    return true
  }
}

function nameOf({ tenant, principal, user, provider, kind }: VaultAddress): string {
  return JSON.stringify([tenant, principal, user, provider, kind])
}

function factsOf({ value: _value, ...facts }: VaultEntry): VaultFacts {
  return facts
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
export class MemoryRequests implements RequestStore {
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

type MutableInMemoryKeys<T> = { -readonly [K in keyof T]: T[K] }

/** The memory store's keys, with the same rules as any other's. */
export class MemoryKeys implements KeyStore {
  readonly #keys = new Map<string, MutableInMemoryKeys<StoredKey>>()
  /** Whether each principal has ended. */
  readonly #owners = new Map<string, boolean>()
  readonly #append: (event: JournalEvent) => void
  #epoch = 0

  constructor(append: (event: JournalEvent) => void) {
    this.#append = append
  }

  createKey(key: NewKey): 'created' | 'exists' | 'ended' {
    const ended = this.#owners.get(ownerText(key))
    if (ended !== undefined) return ended ? 'ended' : 'exists'
    this.#owners.set(ownerText(key), false)
    this.#insert(key)
    this.#change(keyEvent('key.created', key))
    return 'created'
  }

  rotateKey(rotation: KeyRotation): 'rotated' | 'not_found' | 'ended' {
    const ended = this.#owners.get(ownerText(rotation))
    if (ended !== false) return ended === undefined ? 'not_found' : 'ended'
    const mine = this.#rowsOf(rotation)
    const model = mine.find(({ revokedAtMs }) => revokedAtMs === undefined) ?? mine[0]
    if (model === undefined) return 'not_found'
    const { oldEndAtMs } = rotation
    if (oldEndAtMs !== undefined) {
      for (const old of mine.filter(({ revokedAtMs }) => revokedAtMs === undefined)) {
        old.expiresAtMs = Math.min(old.expiresAtMs ?? oldEndAtMs, oldEndAtMs)
      }
    }
    this.#insert({ ...rotation, scopes: model.scopes, roles: model.roles, tools: model.tools })
    this.#change(keyEvent('key.rotated', rotation))
    return 'rotated'
  }

  revokeKey(key: { readonly tenant: string; readonly keyId: string } & KeyChange): boolean {
    const found = this.#keys.get(key.keyId)
    if (found?.tenant !== key.tenant || found.revokedAtMs !== undefined) return false
    found.revokedAtMs = key.atMs
    this.#change(keyEvent('key.revoked', { ...key, name: found.name }))
    return true
  }

  endPrincipal(owner: KeyOwner & KeyChange): boolean {
    if (this.#owners.get(ownerText(owner)) !== false) return false
    for (const { keyId } of this.#rowsOf(owner)) this.revokeKey({ ...owner, keyId })
    this.#owners.set(ownerText(owner), true)
    this.#change(principalEndedEvent(owner))
    return true
  }

  isEnded(owner: KeyOwner): boolean {
    return this.#owners.get(ownerText(owner)) === true
  }

  listKeys({ tenant, limit }: KeyFilter): readonly KeyRecord[] {
    return [...this.#keys.values()]
      .filter((key) => tenant === undefined || key.tenant === tenant)
      .reverse()
      .slice(0, limit)
      .map(withoutDigest)
  }

  keysOf(owner: KeyOwner): readonly KeyRecord[] {
    return this.#rowsOf(owner).map(withoutDigest)
  }

  findKey(keyId: string): StoredKey | undefined {
    const found = this.#keys.get(keyId)
    return found === undefined ? undefined : { ...found }
  }

  epoch(): number {
    return this.#epoch
  }

  noteUses(uses: readonly KeyUse[]): void {
    for (const { keyId, atMs } of uses) {
      const key = this.#keys.get(keyId)
      if (key !== undefined) key.lastUsedAtMs = Math.max(key.lastUsedAtMs ?? 0, atMs)
    }
  }

  /** Newest first. */
  #rowsOf({ tenant, name }: KeyOwner): MutableInMemoryKeys<StoredKey>[] {
    return [...this.#keys.values()].filter((key) => key.tenant === tenant && key.name === name).reverse()
  }

  #insert(key: NewKey): void {
    const { by: _by, atMs, ...facts } = key
    const { tenant, name, scopes, roles, tools, keyId, digest, label, expiresAtMs } = facts
    const row = { tenant, name, scopes, roles, tools, keyId, digest, label, expiresAtMs }
    this.#keys.set(keyId, { ...row, createdAtMs: atMs, revokedAtMs: undefined, lastUsedAtMs: undefined })
  }

  #change(event: JournalEvent): void {
    this.#epoch += 1
    this.#append(event)
  }
}

function ownerText({ tenant, name }: KeyOwner): string {
  return JSON.stringify([tenant, name])
}

function withoutDigest({ digest: _digest, ...record }: StoredKey): KeyRecord {
  return record
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

/** The memory store's consents under way. */
export class MemoryConsents implements ConsentStore {
  readonly runs: MemoryConsentRuns
  readonly #byId = new Map<string, Consent>()

  constructor(parts: MemoryConsentRunsParts) {
    this.runs = new MemoryConsentRuns(parts)
  }

  begin(consent: Consent, most: number): void {
    this.#byId.set(consent.id, consent)
    const same = [...this.#byId.values()].filter(
      ({ challenge, stage }) => challenge === consent.challenge && stage === consent.stage,
    )
    for (const { id } of same.slice(0, Math.max(0, same.length - most))) this.#byId.delete(id)
  }

  find(id: string): Consent | undefined {
    return this.#byId.get(id)
  }

  take(id: string): boolean {
    return this.#byId.delete(id)
  }

  purge(nowMs: number): void {
    for (const { id, expiresAtMs } of this.#byId.values()) if (expiresAtMs < nowMs) this.#byId.delete(id)
  }
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** The memory store's challenges: at most one is open per need (rule 22). */
export class MemoryChallenges {
  readonly #byId = new Map<string, Mutable<ChallengeRecord>>()
  readonly #openByNeed = new Map<string, string>()
  readonly #append: (event: ChallengeChanged) => void

  constructor(append: (event: ChallengeChanged) => void) {
    this.#append = append
  }

  open(challenge: NewChallenge): ChallengeRecord {
    const key = challengeKey(challenge)
    const open = this.#byId.get(this.#openByNeed.get(key) ?? '')
    if (open?.status === 'pending') {
      if (open.expiresAtMs > challenge.atMs) return { ...open }
      open.status = 'failed'
    }
    this.#byId.set(challenge.id, { ...challenge, status: 'pending' })
    this.#openByNeed.set(key, challenge.id)
    const { id, tenant, principal, provider, atMs } = challenge
    this.#append({ type: 'challenge.opened', at: atMs, challenge: id, tenant, principal, provider })
    return { ...challenge, status: 'pending' }
  }

  find(id: string): ChallengeRecord | undefined {
    const found = this.#byId.get(id)
    return found === undefined ? undefined : { ...found }
  }

  end(need: ChallengeNeed, as: 'completed' | 'failed', atMs: number): void {
    const found = this.#byId.get(this.#openByNeed.get(challengeKey(need)) ?? '')
    if (found?.status !== 'pending') return
    found.status = as
    const { id, tenant, principal, provider } = found
    this.#append({ type: `challenge.${as}`, at: atMs, challenge: id, tenant, principal, provider })
  }

  forget(beforeMs: number): void {
    for (const [id, challenge] of this.#byId) {
      if (challenge.expiresAtMs >= beforeMs) continue
      this.#byId.delete(id)
      const key = challengeKey(challenge)
      if (this.#openByNeed.get(key) === id) this.#openByNeed.delete(key)
    }
  }
}

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

/** The memory store's audit stream. */
export class MemoryAudit implements AuditStore {
  #denials: RecordedDenial[] = []
  readonly #append: (event: JournalEvent) => void
  #last = 0

  constructor(append: (event: JournalEvent) => void) {
    this.#append = append
  }

  recordDenials(denials: readonly Denial[]): void {
    for (const denial of denials) {
      this.#last += 1
      this.#denials.push({ ...denial, no: this.#last })
      this.#append(denialEvent(denial))
    }
  }

  readDenials({ tenant, after, limit }: DenialFilter): readonly RecordedDenial[] {
    return this.#denials
      .filter((denial) => denial.no > after && (tenant === undefined || denial.tenant === tenant))
      .slice(0, limit)
  }

  forget(beforeMs: number): void {
    this.#denials = this.#denials.filter(({ atMs }) => atMs >= beforeMs)
  }
}
