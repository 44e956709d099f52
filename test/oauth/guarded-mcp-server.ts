import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { calculateJwkThumbprint, createRemoteJWKSet, EmbeddedJWK, type JWTPayload, jwtVerify } from 'jose'
import { z } from 'zod'

/** One request that the guard let through. */
interface Admitted {
  readonly method: string
  /** Who the token is about: a user or, without one, the client. */
  readonly subject: string
  readonly token: string
  /** `jti` of the proof of a bound token. */
  readonly proof: string | undefined
}

export interface GuardedServer {
  readonly url: string
  readonly admitted: readonly Admitted[]
  /** The guard refuses tokens that were issued before this call. */
  revokeAll(): void
  close(): Promise<void>
}

interface GuardOptions {
  readonly issuer: () => string
  /** Lets requests without a token pass, unless they call a tool. */
  readonly listsFreely?: boolean
  readonly dpop?: boolean
}

const NONCE = 'nonce-of-the-guard'
const METADATA = '/.well-known/oauth-protected-resource/mcp'

/** A server of the official SDK behind a guard that verifies access tokens: `whoami`, and `send`, which needs another scope. */
export async function startGuardedServer({
  issuer,
  listsFreely,
  dpop,
}: GuardOptions): Promise<GuardedServer> {
  const admitted: Admitted[] = []
  const revoked = new Set<string>()
  const scheme = dpop === true ? 'DPoP' : 'Bearer'
  const handle = toNodeHandler(createMcpHandler(makeServer))
  const http = createServer((request, response) => void guard(request, response))
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const address = http.address()
  if (address === null || typeof address === 'string') throw new Error('no TCP address')
  const origin = `http://127.0.0.1:${address.port}`
  const url = `${origin}/mcp`

  async function guard(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url === METADATA) {
      const document = { resource: url, authorization_servers: [issuer()], scopes_supported: ['mail.read'] }
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(document))
      return
    }
    const chunks: Uint8Array[] = []
    for await (const chunk of request) chunks.push(chunk)
    const text = Buffer.concat(chunks).toString()
    const message: { method?: string; params?: { name?: string } } = text === '' ? {} : JSON.parse(text)
    const isCall = message.method === 'tools/call'
    const refuse = (status: number, challenge: string, headers = {}): void => {
      const field = `${scheme} ${challenge}resource_metadata="${origin}${METADATA}"`
      response.writeHead(status, { 'www-authenticate': field, ...headers }).end()
    }
    const [used, token = ''] = (request.headers.authorization ?? '').split(' ')
    if (token === '' && listsFreely === true && !isCall && message.method !== 'ping')
      return pass(request, response, text)
    if (token === '' || used !== scheme) return refuse(401, '')
    const claims = await verify(token, issuer(), url)
    if (claims === undefined || revoked.has(token)) return refuse(401, 'error="invalid_token", ')
    const proof = dpop === true ? await readProof(request, url, token, claims) : undefined
    if (dpop === true && proof === undefined) return refuse(401, 'error="invalid_dpop_proof", ')
    if (dpop === true && proof?.nonce !== NONCE)
      return refuse(401, 'error="use_dpop_nonce", ', { 'dpop-nonce': NONCE })
    const scopes = String(claims.scope ?? '').split(' ')
    if (isCall && message.params?.name === 'send' && !scopes.includes('mail.send'))
      return refuse(403, 'error="insufficient_scope", scope="mail.send", ')
    const subject = String(claims.sub ?? claims.client_id)
    admitted.push({ method: message.method ?? '', subject, token, proof: proof?.jti })
    pass(request, response, text)
  }

  function pass(request: IncomingMessage, response: ServerResponse, text: string): void {
    const { method = 'POST', url: path = '/', headers } = request
    const body: unknown = text === '' ? undefined : JSON.parse(text)
    void handle(Object.assign(request, { method, url: path, headers }), response, body)
  }

  return {
    url,
    admitted,
    revokeAll() {
      for (const { token } of admitted) revoked.add(token)
    },
    async close() {
      http.closeAllConnections()
      await new Promise((resolve) => http.close(resolve))
    },
  }
}

function makeServer(): McpServer {
  const server = new McpServer({ name: 'guarded', version: '1.0.0' }, { capabilities: { tools: {} } })
  for (const name of ['whoami', 'send'])
    server.registerTool(name, { description: 'Answers.', inputSchema: z.object({}) }, () => ({
      content: [{ type: 'text', text: `${name} done` }],
    }))
  return server
}

async function verify(token: string, issuer: string, audience: string): Promise<JWTPayload | undefined> {
  const keys = createRemoteJWKSet(new URL(`${issuer}/jwks`))
  const verified = await jwtVerify(token, keys, { issuer, audience }).catch(() => undefined)
  return verified?.payload
}

/** The claims of a proof that fits the request, the token and the key of the token (RFC 9449 §4.3). */
async function readProof(
  { headers, method }: IncomingMessage,
  url: string,
  token: string,
  claims: JWTPayload,
): Promise<JWTPayload | undefined> {
  const proof = String(headers.dpop ?? '')
  const verified = await jwtVerify(proof, EmbeddedJWK, { typ: 'dpop+jwt' }).catch(() => undefined)
  if (verified === undefined) return undefined
  const { payload, protectedHeader } = verified
  const ath = createHash('sha256').update(token).digest('base64url')
  const isFitting = payload.htm === method && payload.htu === url && payload.ath === ath
  const thumbprint = await calculateJwkThumbprint(protectedHeader.jwk ?? {})
  const { cnf } = claims
  const isOfKey = typeof cnf === 'object' && cnf !== null && 'jkt' in cnf && cnf.jkt === thumbprint
  return isFitting && isOfKey ? payload : undefined
}
