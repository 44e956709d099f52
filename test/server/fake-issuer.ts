import { exportJWK, type GenerateKeyPairResult, generateKeyPair, type JWK, SignJWT } from 'jose'

/** An OpenID Connect issuer without a socket: its documents, its keys, and the URLs that were requested. */
export class FakeIssuer {
  readonly url: string
  readonly asked: string[] = []
  /** Members that replace those of the discovery document. */
  discovery: object = {}
  /** Additional entries of its key set. */
  foreignKeys: unknown[] = []
  answer: ((url: string) => Response | Promise<Response>) | undefined
  readonly #pairs = new Map<string, { readonly pair: GenerateKeyPairResult; readonly alg: string }>()

  constructor(url = 'https://idp.test') {
    this.url = url
  }

  async addKey(kid: string, alg = 'RS256'): Promise<void> {
    this.#pairs.set(kid, { pair: await generateKeyPair(alg, { extractable: true }), alg })
  }

  removeKey(kid: string): void {
    this.#pairs.delete(kid)
  }

  async publicKey(kid: string): Promise<JWK> {
    const found = this.#pairs.get(kid)
    if (found === undefined) throw new Error(`no key ${kid}`)
    return { ...(await exportJWK(found.pair.publicKey)), kid, alg: found.alg, use: 'sig' }
  }

  async sign(claims: object, header: { kid?: string; typ?: string; alg?: string } = {}): Promise<string> {
    const kid = header.kid ?? [...this.#pairs.keys()][0] ?? ''
    const found = this.#pairs.get(kid)
    if (found === undefined) throw new Error(`no key ${kid}`)
    return await new SignJWT({ iss: this.url, ...claims })
      .setProtectedHeader({ alg: found.alg, kid, ...header })
      .sign(found.pair.privateKey)
  }

  /** Replaces the server's `fetch`. */
  readonly fetch: typeof fetch = async (input) => {
    const url = String(input)
    this.asked.push(url)
    if (this.answer !== undefined) return await this.answer(url)
    return await this.document(url)
  }

  async document(url: string): Promise<Response> {
    if (url === `${this.url}/.well-known/openid-configuration`) {
      return Response.json({ issuer: this.url, jwks_uri: `${this.url}/jwks`, ...this.discovery })
    }
    if (url !== `${this.url}/jwks`) return new Response(null, { status: 404 })
    const keys = await Promise.all([...this.#pairs.keys()].map((kid) => this.publicKey(kid)))
    return Response.json({ keys: [...this.foreignKeys, ...keys] })
  }
}
