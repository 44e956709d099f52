import { createPrivateKey, hash, type JsonWebKey, type KeyObject, randomUUID } from 'node:crypto'
import type { JsonObject } from '#kernel/base/json'
import type { Secret } from '#kernel/base/secret'
import { BoundToken } from '#kernel/base/token-broker'
import type { ToolContext } from '#kernel/tool/tool'
import { isWireObject, textOf } from './connection.ts'
import type { Credentials, HeaderFields, Prover } from './transport.ts'

/**
 * The credentials of a call to an MCP server: the caller's token and secrets as headers, and proofs for a token that is bound to a
 * key (DPoP, MCP-165). Calls and discovery use it.
 * Invariant: a proof is made for one request, and no private key leaves this process.
 */

/** The caller's credentials that the accepted definition requires: a token from the broker and secrets from the vault. */
export function readCredentials(binding: JsonObject, context: ToolContext): Credentials {
  const provider = textOf(binding.authorization)
  const { headers: bearer, prover } = provider === undefined ? NONE : readToken(context.token(provider))
  const headers: Record<string, string> = { ...bearer }
  if (isWireObject(binding.secretHeaders))
    for (const [name, id] of Object.entries(binding.secretHeaders))
      if (typeof id === 'string') headers[name.toLowerCase()] = context.secret(id).reveal()
  return { headers, fingerprint: fingerprintOf(headers), prover }
}

/** A token as an `authorization` header, with a prover if the token is bound to a key. */
export function readToken(token: Secret): Credentials {
  const isBound = token instanceof BoundToken
  const headers = { authorization: `${isBound ? 'DPoP' : 'Bearer'} ${token.reveal()}` }
  return {
    headers,
    fingerprint: fingerprintOf(headers),
    ...(isBound ? { prover: new TokenProver(token) } : {}),
  }
}

const NONE: Credentials = { headers: {}, fingerprint: '' }

function fingerprintOf(headers: HeaderFields): string {
  return Object.keys(headers).length === 0 ? '' : hash('sha256', JSON.stringify(headers), 'hex')
}

/** Signs DPoP proofs (RFC 9449 §4). */
class TokenProver implements Prover {
  readonly #key: KeyObject
  readonly #publicKey: Readonly<Record<string, string>>
  readonly #tokenHash: string

  constructor(token: BoundToken) {
    const whole: JsonWebKey = JSON.parse(token.proofKey.reveal())
    const { kty = '', crv = '', x = '', y = '' } = whole
    this.#key = createPrivateKey({ format: 'jwk', key: whole })
    this.#publicKey = { kty, crv, x, y }
    this.#tokenHash = hash('sha256', token.reveal(), 'base64url')
  }

  async prove({ method, url, nonce }: Parameters<Prover['prove']>[0]): Promise<string> {
    const { SignJWT } = await import('jose')
    const claims = {
      htm: method,
      htu: `${url.origin}${url.pathname}`,
      ath: this.#tokenHash,
      ...(nonce === undefined ? {} : { nonce }),
    }
    return await new SignJWT(claims)
      .setProtectedHeader({ typ: 'dpop+jwt', alg: 'ES256', jwk: this.#publicKey })
      .setIssuedAt()
      .setJti(randomUUID())
      .sign(this.#key)
  }
}
