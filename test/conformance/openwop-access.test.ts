import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { API_KEY_HEADERS } from '#protocols/http-exchange'
import { ALL_IDS, idsOf, KEYS, TWO_TENANTS } from './openwop-fixtures.ts'
import { type OpenwopServer, stablePartsOf, startOpenwopServer } from './openwop-server.ts'
import { JWT_AUDIENCE, JWT_KINDS, JWT_SECRET, vectorJwt } from './vector-jwt.ts'

let server: OpenwopServer

beforeAll(async () => {
  server = await startOpenwopServer()
})

afterAll(() => server.close())

const root = { key: KEYS.root }
const narrow = { key: KEYS.narrow }

describe('visibility', () => {
  it.each([
    ['missing', {}],
    ['malformed', { authorization: 'Basic abc' }],
    ['empty', { authorization: 'Bearer ' }],
    ['unknown', { authorization: 'Bearer k-nobody' }],
    ['unknown, in a key header', { 'x-api-key': 'k-nobody' }],
    ['one valid and one invalid', { authorization: `Bearer ${KEYS.root}`, 'x-api-key': 'k-nobody' }],
  ])('OWP-12, OWP-13: a %s credential is 401 everywhere, in the flat envelope', async (_title, headers) => {
    for (const path of [
      '/v1/tools',
      '/v1/tools?source=bad',
      '/v1/tools/openwop:Who.Am',
      '/v1/tools/openwop:Mail.Send',
      '/v1/tools/nothing',
    ]) {
      const answer = await server.ask(path, { headers })
      expect(answer.status).toBe(401)
      expect(answer.headers['www-authenticate']).toMatch(
        Object.keys(headers).length === 0
          ? /^Bearer$/
          : /^Bearer error="invalid_token", error_description="[^"]+"$/,
      )
      expect(Object.keys(answer.json)).toEqual(['error', 'message'])
      expect(answer.json.error).toBe('unauthenticated')
    }
  })

  it.each(API_KEY_HEADERS)('a key in %s is a credential too, and Vary names the header', async (name) => {
    const { status, headers } = await server.ask('/v1/tools', { headers: { [name]: KEYS.root } })
    expect(status).toBe(200)
    expect(headers.vary).toContain(name)
  })

  it.each(JWT_KINDS)('OWP-12, OWP-21: a token that is %s', async (kind) => {
    const jwt = {
      secret: new Secret(JWT_SECRET),
      audiences: [JWT_AUDIENCE],
      maxLifetimeSeconds: 900,
      tenant: 'acme',
    }
    const signed = await startOpenwopServer({ auth: { ...TWO_TENANTS, jwt } })
    const { status, text } = await signed.ask('/v1/tools', { key: vectorJwt(kind) })
    const { text: unscoped } = await signed.ask('/v1/tools', narrow)
    await signed.close()
    const isGood = kind === 'valid' || kind === 'aud-ok'
    expect(status).toBe(isGood ? 200 : 401)
    if (isGood) expect(text).toBe(unscoped)
  })

  it('OWP-12: before any key is configured, /v1 serves anonymous (rule 28)', async () => {
    const open = await startOpenwopServer({ auth: { apiKeys: [], jwt: undefined } })
    const { status, json } = await open.ask('/v1/tools', { headers: { authorization: 'Bearer anything' } })
    await open.close()
    expect(status).toBe(200)
    expect(idsOf(json)).toContain('openwop:Calculator.Add')
    expect(idsOf(json)).not.toContain('openwop:Mail.Send')
  })

  it('OWP-21: a principal without scopes gets the tools that require none', async () => {
    const { json } = await server.ask('/v1/tools', narrow)
    const withheld = ['openwop:Mail.Send', 'x-host-acme-shell']
    expect(idsOf(json)).toEqual(ALL_IDS.filter((id) => !withheld.includes(id)))
  })

  it('OWP-22, OWP-97: withheld and unknown ids have equal answers, byte for byte', async () => {
    for (const query of ['', '?view=compact']) {
      const unknown = stablePartsOf(await server.ask(`/v1/tools/openwop:Mail.Sent${query}`, narrow))
      for (const id of ['openwop:Mail.Send', 'x-host-acme-shell', 'nothing']) {
        const answer = await server.ask(`/v1/tools/${id}${query}`, narrow)
        expect(stablePartsOf(answer)).toEqual(unknown)
        expect(answer.json.error).toBe('not_found')
      }
    }
    const known = await server.ask('/v1/tools/openwop:Mail.Send', root)
    const withheld = await server.ask('/v1/tools/openwop:Mail.Send', {
      ...narrow,
      headers: { 'if-none-match': known.headers.etag ?? '', 'accept-encoding': 'gzip' },
    })
    const unknown = await server.ask('/v1/tools/nothing', {
      ...narrow,
      headers: { 'if-none-match': known.headers.etag ?? '', 'accept-encoding': 'gzip' },
    })
    expect(stablePartsOf(withheld)).toEqual(stablePartsOf(unknown))
  })

  it.each(['HEAD', 'POST', 'DELETE', 'OPTIONS'])(
    'OWP-22, OWP-97: %s of a withheld id is answered as for an unknown one',
    async (method) => {
      const unknown = await server.ask('/v1/tools/openwop:Mail.Sent', { ...narrow, method })
      const withheld = await server.ask('/v1/tools/openwop:Mail.Send', { ...narrow, method })
      expect(stablePartsOf(withheld)).toEqual(stablePartsOf(unknown))
      expect(withheld.status).toBe({ HEAD: 404, OPTIONS: 204 }[method] ?? 405)
    },
  )

  it('OWP-22, OWP-97: with a wrong credential existing and unknown ids have equal answers', async () => {
    const wrong = { key: 'k-nobody' }
    const unknown = stablePartsOf(await server.ask('/v1/tools/nothing', wrong))
    for (const id of ['openwop:Mail.Send', 'openwop:Who.Am']) {
      expect(stablePartsOf(await server.ask(`/v1/tools/${id}`, wrong))).toEqual(unknown)
    }
  })

  it('OWP-14: a 404 carries no challenge', async () => {
    const { headers, text } = await server.ask('/v1/tools/openwop:Mail.Send', narrow)
    expect(headers['www-authenticate']).toBeUndefined()
    expect(text).not.toMatch(/scope/)
  })

  it('OWP-23: only the credential determines the principal', async () => {
    const { text } = await server.ask('/v1/tools', narrow)
    for (const query of ['tenant=globex', 'tenantId=globex&principal=root', 'scopes=*', 'workspace=x']) {
      expect((await server.ask(`/v1/tools?${query}`, narrow)).text).toBe(text)
    }
    const headers = { 'x-tenant-id': 'globex', 'openwop-tenant': 'globex', 'x-scopes': '*' }
    expect((await server.ask('/v1/tools', { ...narrow, headers })).text).toBe(text)
    const other = await server.ask('/v1/tools', { key: KEYS.other })
    expect(idsOf(other.json)).toEqual(ALL_IDS.filter((id) => id !== 'x-host-acme-shell'))
  })
})
