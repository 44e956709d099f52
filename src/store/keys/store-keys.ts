import { createHmac, createSecretKey, hkdfSync, type KeyObject, timingSafeEqual } from 'node:crypto'

/** Keys derived from `COLLET_KEY`, one per purpose, so that no two uses can be played against each other. */
export interface StoreKeys {
  /** Wraps each writer's random data key (rule 14). */
  readonly wrap: Buffer
  /** Wraps the data key of each tenant's vault. */
  readonly vault: Buffer
  /** Seals the options of stored sources. */
  readonly sources: Buffer
  /** Seals what was answered to requests with keys. */
  readonly requests: Buffer
  /** Seals what approvers gave as their reasons. */
  readonly reasons: Buffer
  /** Links the journal (rule 15). */
  readonly chain: KeyObject
  /** Prefix of keyed digests. */
  readonly digest: string
  /** Signs links and binds grants (rules 21 and 23). */
  readonly approvals: KeyObject
  /** Authenticates rows that decide. */
  readonly rows: KeyObject
  /** Kept in the store: a process with another key refuses to start. Only a store whose rows have MACs holds this one. */
  readonly check: string
  /** What stores held before that; whoever has no key cannot make it, to have changed rows taken for old ones. */
  readonly checkBeforeMacs: string
}

export function deriveStoreKeys(masterKey: Uint8Array): StoreKeys {
  return {
    wrap: derive(masterKey, 'collet/wrap/v1'),
    vault: derive(masterKey, 'collet/vault-wrap/v1'),
    sources: derive(masterKey, 'collet/sources/v1'),
    requests: derive(masterKey, 'collet/requests/v1'),
    reasons: derive(masterKey, 'collet/approval-reasons/v1'),
    chain: createSecretKey(derive(masterKey, 'collet/journal-chain/v1')),
    digest: derive(masterKey, 'collet/digest/v1').toString('base64url'),
    approvals: createSecretKey(derive(masterKey, 'collet/approvals/v1')),
    rows: createSecretKey(derive(masterKey, 'collet/rows/v1')),
    check: checkOf(masterKey, 'collet/key-check/v2'),
    checkBeforeMacs: checkOf(masterKey, 'collet/key-check/v1'),
  }
}

export function isSameCheck(left: string, right: string): boolean {
  return left.length === right.length && timingSafeEqual(Buffer.from(left), Buffer.from(right))
}

function checkOf(masterKey: Uint8Array, purpose: string): string {
  return createHmac('sha256', derive(masterKey, purpose)).update('collet').digest('base64url')
}

function derive(masterKey: Uint8Array, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', masterKey, '', purpose, 32))
}
