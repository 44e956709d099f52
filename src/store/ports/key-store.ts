import type { MaybePromise } from '#kernel/base/waiting'

/**
 * Why a caller was refused. `credential`: it is not known who it is. `self_approval` and `second_vote` are refusals of approvers; `changed_row` is one of a process that
 * wrote into the database without the key.
 */
export const DENIAL_REASONS = [
  'scope',
  'allowlist',
  'tenant',
  'self_approval',
  'second_vote',
  'changed_row',
  'credential',
] as const

export type DenialReason = (typeof DENIAL_REASONS)[number]

/** A decision against a caller (rule 30a, OWP-62). */
export interface Denial {
  readonly atMs: number
  readonly tenant: string
  /** Opaque: `prn_` and a keyed digest. */
  readonly principal: string
  /** What was wanted: `tool.call`, `admin:keys` … */
  readonly action: string
  /** A catalog id, a scope, a table of the store or a kind of credential, never a caller's text. */
  readonly resource: string
  readonly reason: DenialReason
  /** How often within the window that this stands for. */
  readonly count: number
}

/** What was refused, and why. */
export type DenialFacts = Pick<Denial, 'action' | 'resource' | 'reason'>

export interface RecordedDenial extends Denial {
  /** Counts up; where a reader goes on. */
  readonly no: number
}

export interface DenialFilter {
  /** Absent: those of every tenant, for operators. */
  readonly tenant?: string
  readonly after: number
  readonly limit: number
}

/** The audit stream, kept as long as the journal, which has every denial too. */
export interface AuditStore {
  /** Commits, also when there is nothing to write: what was asked for in vain must not show in the time it takes (OWP-22). */
  recordDenials(denials: readonly Denial[]): MaybePromise<void>
  /** Oldest first. */
  readDenials(filter: DenialFilter): MaybePromise<readonly RecordedDenial[]>
}

/** Whose keys: a principal is `key:<name>` of one tenant. */
export interface KeyOwner {
  readonly tenant: string
  readonly name: string
}

/** What a key may do. */
export interface KeyGrant {
  readonly scopes: readonly string[]
  readonly roles: readonly string[]
  /** Allow-list of catalog ids; `undefined` = every tool the scopes open (OWP-57). */
  readonly tools: readonly string[] | undefined
}

/** Who changes a key, and when: journaled with every change. */
export interface KeyChange {
  readonly by: string
  readonly atMs: number
}

interface KeySecret {
  /** Public: names the key in lists, in the journal and inside the key itself. */
  readonly keyId: string
  /** SHA-256 of the whole key. It has 256 random bits, so nothing is gained by a slow hash. */
  readonly digest: string
  readonly label: string | undefined
  /** `undefined` = it does not end by itself. */
  readonly expiresAtMs: number | undefined
}

export interface NewKey extends KeyOwner, KeyGrant, KeySecret, KeyChange {}

export interface KeyRotation extends KeyOwner, KeySecret, KeyChange {
  /** When the keys there are end, if they do not end earlier; `undefined` = as before. */
  readonly oldEndAtMs: number | undefined
}

export interface KeyRecord extends KeyOwner, KeyGrant, Omit<KeySecret, 'digest'> {
  readonly createdAtMs: number
  readonly revokedAtMs: number | undefined
  /** Written now and then, not with every use. */
  readonly lastUsedAtMs: number | undefined
}

/** What a presented key is checked against. */
export interface StoredKey extends KeyRecord {
  readonly digest: string
}

export interface KeyFilter {
  /** Absent: keys of every tenant, for operators. */
  readonly tenant?: string
  readonly limit: number
}

export interface KeyUse {
  readonly keyId: string
  readonly atMs: number
}

/**
 * API keys and the principals they belong to. Nothing is ever deleted, so no principal's name is given twice (rule 3).
 * Every change raises the epoch, in the same transaction, and is journaled.
 */
export interface KeyStore {
  /** A new principal with its first key. `ended`: the name had an owner once, and has none again. */
  createKey(key: NewKey): MaybePromise<'created' | 'exists' | 'ended'>
  /** One more key with the grant of the newest one that is not revoked, or of the newest. */
  rotateKey(rotation: KeyRotation): MaybePromise<'rotated' | 'not_found' | 'ended'>
  revokeKey(key: { readonly tenant: string; readonly keyId: string } & KeyChange): MaybePromise<boolean>
  /** Revokes all keys of a principal, for good; `false` when there is none or it has ended. */
  endPrincipal(owner: KeyOwner & KeyChange): MaybePromise<boolean>
  isEnded(owner: KeyOwner): MaybePromise<boolean>
  /** Newest first. */
  listKeys(filter: KeyFilter): MaybePromise<readonly KeyRecord[]>
  keysOf(owner: KeyOwner): MaybePromise<readonly KeyRecord[]>
  /** For authentication alone: the tenant comes from the key (rule 3). */
  findKey(keyId: string): MaybePromise<StoredKey | undefined>
  /** Raised by every change, seen by every process on the same store; 0 before the first key (rule 26). */
  epoch(): MaybePromise<number>
  noteUses(uses: readonly KeyUse[]): MaybePromise<void>
}
