import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { Secret } from '#core/secret'

export const KEY_PREFIX = 'clt_'
const RANDOM_ID_BYTES = 6
const TAG_CHARACTERS = 12
const SECRET_BYTES = 32
/** `clt_`, the public id, `_`, 32 random bytes. */
const KEY = /^clt_([0-9a-f]{24})_[A-Za-z0-9_-]{43}$/

/** A keyed digest that only the store's owner can compute. */
export type KeyedDigest = (text: string) => string

export interface MadeKey {
  readonly keyId: string
  readonly key: Secret
  /** What is stored instead of it. */
  readonly digest: string
}

/**
 * A new API key. Half of its public id is a keyed tag of the other half, so that a made-up id is refused without a look
 * into the store: a million wrong keys cost a million hashes and nothing else.
 */
export function makeKey(digest: KeyedDigest): MadeKey {
  const random = randomBytes(RANDOM_ID_BYTES).toString('hex')
  const keyId = random + tagOf(random, digest)
  const text = `${KEY_PREFIX}${keyId}_${randomBytes(SECRET_BYTES).toString('base64url')}`
  return { keyId, key: new Secret(text), digest: digestOfKey(text) }
}

/** The public id inside a key of ours; `undefined` for any other text, and for an id that we never made. */
export function readKeyId(presented: string, digest: KeyedDigest): string | undefined {
  const keyId = KEY.exec(presented)?.[1]
  if (keyId === undefined) return undefined
  const random = keyId.slice(0, -TAG_CHARACTERS)
  return isSame(keyId.slice(-TAG_CHARACTERS), tagOf(random, digest)) ? keyId : undefined
}

/** SHA-256 is enough for 256 random bits: nobody can try them all, so a slow hash would only slow us. */
export function digestOfKey(key: string): string {
  return hash('sha256', key)
}

/** Constant time for texts of one length, which digests are (OTC-100). */
export function isSame(left: string, right: string): boolean {
  return left.length === right.length && timingSafeEqual(Buffer.from(left), Buffer.from(right))
}

/** Hexadecimal, so that an id never begins with "-" on a command line. */
function tagOf(random: string, digest: KeyedDigest): string {
  return hash('sha256', digest(`api key ${random}`)).slice(0, TAG_CHARACTERS)
}
