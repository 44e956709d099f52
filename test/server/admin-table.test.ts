import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sampleTool } from '../contracts/samples.ts'
import { key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

/** Rules for every operator route, including future ones: the tests read the server's own route table. */
const ONLY_BETA = { policy: { tenants: ['beta'] } }
let server: PrincipalsServer
let routes: readonly { readonly method: string; readonly path: string }[]

beforeAll(async () => {
  server = await startPrincipalsServer(
    {
      tools: [
        sampleTool('Both.Do@1.0.0', () => 'done'),
        sampleTool('Beta.Only@1.0.0', () => 'done', ONLY_BETA),
        sampleTool('Acme.Only@1.0.0', () => 'done', { policy: { tenants: ['acme'] } }),
      ],
      toolsets: new Map([
        ['everything', { include: ['Both.*', 'Beta.*', 'Acme.*'], exclude: ['Beta.Secret*'] }],
        ['betas', { include: ['Beta.*'], exclude: [] }],
      ]),
      auth: {
        apiKeys: [
          key('ann', ['*']),
          key('ben', ['*'], { tenant: 'beta' }),
          key('root', ['*'], { tenant: 'default' }),
          key('caller', [], { tenant: 'default' }),
        ],
        jwt: undefined,
      },
    },
    'sqlite',
  )
  // The description of the routes is equal for all callers and contains no data.
  routes = server.routes.filter(({ path }) => path.startsWith('/admin/') && path !== '/admin/openapi.json')
  // Data of beta that other tenants must not see.
  for (const name of ['Beta.Only', 'Both.Do'])
    await server.ask('/tools/call', {
      method: 'POST',
      key: 'k-ben',
      body: { request: { tool_id: name, call_id: 'canary-beta', input: {} } },
    })
  await server.ask('/admin/keys', { method: 'POST', key: 'k-ben', body: { principal: 'canary-beta-key' } })
  const secret = { name: 'CANARY_BETA', value: 'x', principal: '*' }
  await server.ask('/admin/secrets', { method: 'POST', key: 'k-ben', body: secret })
})
afterAll(() => server.stop())

/** Routes that answer callers without a scope, with the status: tools that they may call, and their own accounts. */
const FOR_CALLERS: readonly string[] = [
  'GET /admin/providers 200',
  'GET /admin/server 200',
  'GET /admin/server/onboarding 200',
  'GET /admin/tool-cost 200',
  'GET /admin/tool-count 200',
  'GET /admin/tool-search 400',
  'GET /admin/tools 200',
  'GET /admin/tools/:tool 404',
  'POST /admin/providers/:id/connect 404',
]
const startToken = () => readFileSync(server.startTokenFile, 'utf8').trim()
const pathOf = (path: string) => path.replaceAll(/:\w+/g, 'x')

describe('every route of operators', () => {
  it('forbids caching, whatever the status of its answer', async () => {
    expect(routes.length).toBeGreaterThan(45)
    for (const { method, path } of routes) {
      if (path.endsWith('/events')) continue
      for (const credential of [undefined, 'k-ann', startToken()]) {
        const body = method === 'POST' ? {} : undefined
        const { headers } = await server.ask(pathOf(path), {
          method,
          ...(credential === undefined ? {} : { key: credential }),
          ...(body === undefined ? {} : { body }),
        })
        // The list of tools is requested often, so a browser may cache it but must revalidate it.
        const wanted = headers.etag === undefined ? 'no-store' : 'private, no-cache'
        expect([method, path, headers['cache-control']]).toEqual([method, path, wanted])
        expect(headers.etag === undefined || path === '/admin/tools').toBe(true)
      }
    }
  })

  it('refuses a key without scopes, except on routes about the caller’s own data', async () => {
    const answers = []
    for (const { method, path } of routes) {
      const given = path.endsWith('/link') ? { approver: 'key:caller', power: 'decide' } : {}
      const body = method === 'POST' ? given : undefined
      const { status } = await server.ask(pathOf(path), {
        ...{ method, key: 'k-caller' },
        ...(body === undefined ? {} : { body }),
      })
      if (status !== 403) answers.push(`${method} ${path} ${status}`)
    }
    expect(answers.toSorted()).toEqual(FOR_CALLERS.toSorted())
  })

  it('refuses NUL in any member of a body as a client error, never as a store error', async () => {
    const posts = routes.filter(({ method }) => method === 'POST')
    const nul = 'a\0b'
    const bodies = [
      { key: 'Nul', options: { type: 'mcp', command: nul } },
      { principal: 'p', scopes: [nul], tools: [nul], label: nul },
      { deep: [{ deeper: { [nul]: 1 } }] },
    ]
    for (const { path } of posts)
      for (const body of bodies) {
        const { status, json } = await server.ask(pathOf(path), { method: 'POST', key: startToken(), body })
        expect([path, status, json.message]).toEqual([
          path,
          400,
          'A string in the body contains the NUL character.',
        ])
      }
  })

  it('gives a key that names another tenant in the query only data of its own tenant', async () => {
    for (const { method, path } of routes) {
      if (method !== 'GET' || path.endsWith('/events')) continue
      const plain = await server.ask(pathOf(path), { key: 'k-ann' })
      const asked = await server.ask(`${pathOf(path)}?tenant=beta`, { key: 'k-ann' })
      expect([path, asked.text.toLowerCase().includes('canary')]).toEqual([path, false])
      expect(asked.text, path).not.toMatch(/key:ben|"tenant":"beta"|Beta\.Only/)
      if (asked.status === 200) expect([path, plain.status]).toEqual([path, 200])
    }
    // Beta's own key does see it with the same requests, so the data exists.
    const own = await server.ask('/admin/usage?tenant=acme', { key: 'k-ben' })
    expect(own.text).toContain('key:ben')
    expect((await server.ask('/admin/calls/stats', { key: 'k-ben' })).text).not.toBe(
      (await server.ask('/admin/calls/stats?tenant=beta', { key: 'k-ann' })).text,
    )
  })
})

it('a tenant’s auditors do not learn the names of other tenants’ tools from refusals', async () => {
  const call = async (tool: string) =>
    await server.ask('/tools/call', {
      method: 'POST',
      key: 'k-ann',
      body: { request: { tool_id: tool, input: {} } },
    })
  for (const tool of ['Beta.Only', 'Beta.Nope']) expect((await call(tool)).text).not.toContain('done')
  expect((await server.ask('/v1/tools/openwop%3ABeta.Only', { key: 'k-ann' })).status).toBe(404)
  const denials = async (credential: string) => (await server.ask('/admin/audit', { key: credential })).text
  await expect.poll(() => denials(startToken()), { timeout: 5_000 }).toContain('Beta.Only')
  expect(await denials('k-ann')).not.toContain('Beta.')
})

it('a toolset with only another tenant’s tools answers like an unknown one, and no hint names it', async () => {
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
  const ask = async (name: string, credential: string) =>
    await server.ask(`/mcp/${name}`, {
      method: 'POST',
      key: credential,
      headers: { accept: 'application/json, text/event-stream' },
      body,
    })
  const [other, unknown] = [await ask('betas', 'k-ann'), await ask('bettas', 'k-ann')]
  expect([other.status, unknown.status]).toEqual([404, 404])
  expect(other.text.replaceAll('betas', '?')).toBe(unknown.text.replaceAll('bettas', '?'))
  expect((await ask('betas', 'k-ben')).status).not.toBe(404)
})

it('toolsets are shown to a viewer of one tenant without their include and exclude patterns', async () => {
  const listed = await server.ask('/admin/toolsets', { key: 'k-ann' })
  for (const toolset of listed.json.toolsets)
    expect([toolset.name, toolset.include, toolset.exclude]).toEqual([toolset.name, null, null])
  expect(listed.text).not.toContain('Beta.')
  expect((await server.ask('/admin/toolsets', { key: startToken() })).text).toContain('Beta.Secret*')
})
