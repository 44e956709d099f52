import { denialEvent, keyEvent, principalEndedEvent } from '#core/journal/append'
import type { ChallengeChanged, JournalEvent, VaultChanged } from '#core/journal/events'
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
import type { ChallengeNeed, ChallengeRecord, NewChallenge } from '#core/ports/store'
import type {
  AskedConsent,
  Consent,
  ConsentEnd,
  ConsentRunStore,
  ConsentStore,
  NewCredential,
  RenewedCredential,
  VaultAddress,
  VaultEntry,
  VaultFacts,
  VaultStore,
} from '#core/ports/vault-store'
import { askedConsentFacts, endedConsentFacts, labelOf, type WaitingConsent } from '#core/runs/events'
import { isRunEnded } from '#core/runs/runs'
import { challengeKey } from '#store/consents'
import { vaultChanged } from '#store/vault'
import type { MemoryRuns } from './runs.ts'

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

interface Waiting extends WaitingConsent {
  readonly need: string
  readonly tenant: string
  readonly run: string
  readonly expiresAtMs: number
}

interface MemoryConsentRunsParts {
  readonly runs: MemoryRuns
  hasCall(record: string): boolean
  append(event: ChallengeChanged): void
}

/** What the memory store's runs tell of consents. */
class MemoryConsentRuns implements ConsentRunStore {
  readonly #parts: MemoryConsentRunsParts
  readonly #waiting = new Map<string, Waiting>()

  constructor(parts: MemoryConsentRunsParts) {
    this.#parts = parts
  }

  isTold(challenge: string, record: string): boolean {
    return this.#waiting.has(keyOf(challenge, record))
  }

  tell(asked: AskedConsent): boolean {
    const { runs, append } = this.#parts
    const { tenant, record, principal, place, challenge, need, expiresAtMs, atMs } = asked
    const key = keyOf(challenge, record)
    if (this.#waiting.has(key)) return true
    if (this.#isRecorded(place.run, record) || !runs.open(place, atMs)) return false
    const { provider } = need
    const { run } = place
    this.#waiting.set(key, {
      record,
      challenge,
      provider,
      need: challengeKey(need),
      tenant,
      run,
      expiresAtMs,
    })
    const positions = askedConsentFacts(asked, labelOf(asked)).map((fact) => runs.append(run, fact, atMs))
    append({ type: 'challenge.asked', at: atMs, challenge, tenant, principal, provider, ...positions[0] })
    return true
  }

  resolve(need: ChallengeNeed, end: ConsentEnd): readonly string[] {
    const key = challengeKey(need)
    return this.#end((waiting) => waiting.need === key, end)
  }

  expire(nowMs: number): readonly string[] {
    const end = { as: 'failed', reason: 'timeout', atMs: nowMs } as const
    return this.#end(({ expiresAtMs }) => expiresAtMs <= nowMs, end)
  }

  #end(isMeant: (waiting: Waiting) => boolean, { atMs, ...end }: ConsentEnd): readonly string[] {
    const { runs } = this.#parts
    const told = new Set<string>()
    for (const [key, waiting] of this.#waiting) {
      if (!isMeant(waiting)) continue
      this.#waiting.delete(key)
      const found = runs.find(waiting)
      if (found === undefined || isRunEnded(found, atMs) || this.#isRecorded(waiting.run, waiting.record))
        continue
      for (const fact of endedConsentFacts(waiting, end)) runs.append(waiting.run, fact, atMs)
      told.add(waiting.run)
    }
    return [...told]
  }

  /** Whether the run is one of a call whose record tells the rest of it: nothing comes between. */
  #isRecorded(run: string, record: string): boolean {
    return run === record && this.#parts.hasCall(record)
  }
}

function keyOf(challenge: string, record: string): string {
  return JSON.stringify([challenge, record])
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
