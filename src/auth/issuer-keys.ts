import { createPublicKey, type KeyObject } from 'node:crypto'
import { ISSUER_ALGORITHMS, type IssuerAlgorithm } from '#config/settings'
import { isRecord } from './fetch-json.ts'

const MOST_KEYS = 100

/** A key of an issuer, and the only algorithms it is ever used with: they are fixed before a token is looked at. */
export interface IssuerKey {
  readonly kid: string | undefined
  readonly algorithms: readonly IssuerAlgorithm[]
  readonly key: KeyObject
}

const BY_CURVE: Readonly<Record<string, readonly IssuerAlgorithm[]>> = {
  'P-256': ['ES256'],
  'P-384': ['ES384'],
  'P-521': ['ES512'],
  Ed25519: ['EdDSA', 'Ed25519'],
}

/** The keys of a set that can check signatures; those we cannot use are left out, as RFC 7517 §5 asks. */
export function readKeySet(
  document: Readonly<Record<string, unknown>>,
  allowed: readonly IssuerAlgorithm[],
): readonly IssuerKey[] {
  const { keys } = document
  if (!Array.isArray(keys)) throw new Error('the key set has no `keys`')
  if (keys.length > MOST_KEYS) throw new Error(`the key set has more than ${MOST_KEYS} keys`)
  return keys.flatMap((jwk: unknown) => readKey(jwk, allowed) ?? [])
}

function readKey(jwk: unknown, allowed: readonly IssuerAlgorithm[]): IssuerKey | undefined {
  if (!isRecord(jwk) || !isForSignatures(jwk)) return undefined
  const algorithms = algorithmsOf(jwk).filter((name) => allowed.includes(name))
  if (algorithms.length === 0) return undefined
  // Only the public members: whatever else a hostile set holds is not even looked at.
  const { kty, crv, x, y, n, e, kid } = jwk
  const members = Object.entries({ kty, crv, x, y, n, e }).filter(([, value]) => typeof value === 'string')
  try {
    const key = createPublicKey({ format: 'jwk', key: Object.fromEntries(members) })
    return { kid: typeof kid === 'string' ? kid : undefined, algorithms, key }
  } catch {
    return undefined
  }
}

function isForSignatures({ use, key_ops: operations }: Readonly<Record<string, unknown>>): boolean {
  if (use !== undefined && use !== 'sig') return false
  return operations === undefined || (Array.isArray(operations) && operations.includes('verify'))
}

/** The key's own `alg`, or what its type can do. */
function algorithmsOf(jwk: Readonly<Record<string, unknown>>): readonly IssuerAlgorithm[] {
  const { kty, crv, alg } = jwk
  const possible: readonly IssuerAlgorithm[] =
    kty === 'RSA'
      ? ISSUER_ALGORITHMS.filter((name) => /^[RP]S/.test(name))
      : kty === 'EC' || kty === 'OKP'
        ? (BY_CURVE[String(crv)] ?? [])
        : []
  if (alg === undefined) return possible
  const isEdwards = alg === 'EdDSA' || alg === 'Ed25519'
  return isEdwards ? possible.filter((name) => /^Ed/.test(name)) : possible.filter((name) => name === alg)
}
