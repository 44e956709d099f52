import { readFileSync, rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { StoreError, type StoreErrorCode } from '#kernel/base/errors'
import { Secret } from '#kernel/base/secret'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { ServerRoute } from '#server/http/router'
import { type RunningServer, startServer } from '#server/start-server'
import { testSettings } from '../test-settings.ts'

/** The routes of the server, the errors it logged, and the unavailable parts of its store. */
const fixture = vi.hoisted(() => ({
  lines: [] as string[],
  routes: [] as readonly ServerRoute[],
  isAway: (_part: string): boolean => false,
  failsAs: 'full' as StoreErrorCode,
}))

vi.mock(import('#server/http/app'), async (importOriginal) => {
  const app = await importOriginal()
  return {
    ...app,
    createHttpApp(options) {
      fixture.routes = options.routes
      return app.createHttpApp(options)
    },
  }
})

vi.mock(import('#server/telemetry/log'), async (importOriginal) => {
  const log = await importOriginal()
  return { ...log, createLog: () => log.createLog('error', { write: (line) => fixture.lines.push(line) }) }
})

vi.mock(import('#store/stores'), async (importOriginal) => {
  const stores = await importOriginal()
  return { ...stores, openStore: async (...asked) => breakable(await stores.openStore(...asked), '') }
})

/** Methods that do not query the database. */
const AT_HAND: ReadonlySet<string> = new Set(['digest', 'sign', 'obstacle', 'mayStart', 'watch', 'close'])

/** The store, whose reads and writes fail while their part is unavailable, as if the database could not be reached. */
function breakable<T extends object>(store: T, part: string): T {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value === 'object' && value !== null) return breakable(value, String(name))
      if (typeof value !== 'function' || AT_HAND.has(String(name))) return value
      return (...given: unknown[]): unknown => {
        if (fixture.isAway(part))
          return Promise.reject(new StoreError(fixture.failsAs, 'the database is away'))
        return Reflect.apply(value, target, given)
      }
    },
  })
}

const KEY = 'a-key-of-thirty-two-characters-0'
const OPENED = z.object({ sessionId: z.string(), runId: z.string() })
const APPROVALS = z.object({ approvals: z.array(z.object({ id: z.string(), record: z.string() })) })
const LINK = z.object({ token: z.string() })

const tools = ['Note.Write', 'Note.Ask', 'Note.Keep'].map((name) => ({
  id: `${name}@1.0.0`,
  description: 'Notes something.',
  input: z.object({}),
  output: z.string(),
  policy: { safetyTier: 'write', ...(name === 'Note.Ask' ? { approval: 'always' } : {}) },
  ...(name === 'Note.Keep' ? { session: { open: () => [], close: () => undefined, idleMs: 60_000 } } : {}),
  run: () => 'noted',
}))

const folders: string[] = []
let server: RunningServer
let startToken: string
/** Values of path parameters: ids of existing objects. */
let known: Readonly<Record<string, string>>
let mcpSession: string

beforeAll(async () => {
  const apiKeys = [{ id: 'caller', key: new Secret(KEY), tenant: 'default', scopes: [] }]
  const settings = testSettings({
    tools: requireTools(tools),
    auth: { apiKeys, jwt: undefined },
    opentool: {
      title: 'T',
      version: undefined,
      description: undefined,
      stringIdsAreKeys: false,
      streaming: true,
    },
  })
  folders.push(settings.dataFolder)
  server = await startServer(settings, { consoleFolder: settings.dataFolder })
  startToken = readFileSync(server.startTokenFile, 'utf8').trim()
  await fill()
})
afterAll(async () => {
  fixture.isAway = () => false
  await server.close()
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

/** A session, a call that waits for approval, a link to it, an MCP session. */
async function fill(): Promise<void> {
  const session = OPENED.parse(await (await ask('POST /v1/sessions', '/v1/sessions')).json())
  await ask('POST /tools/call', '/tools/call', { request: { tool_id: 'Note.Ask', call_id: 'asks' } })
  const { approvals } = APPROVALS.parse(await (await ask('GET /admin/approvals', '/admin/approvals')).json())
  const { id = '', record = '' } = approvals[0] ?? {}
  const link = await ask('POST /admin/approvals/:id/link', `/admin/approvals/${id}/link`)
  const { token } = LINK.parse(await link.json())
  known = {
    ...session,
    id,
    token,
    nodeId: record,
    record,
    verb: 'approve',
    name: 'error',
    toolId: 'x',
    tool: 'A.B',
  }
  known = { ...known, keyId: 'k', principal: 'p', ref: 'r', key: 'K' }
  mcpSession = (await ask('POST /mcp', '/mcp', INITIALIZE)).headers.get('mcp-session-id') ?? ''
  expect(mcpSession).not.toBe('')
}

const INITIALIZE = {
  ...{ jsonrpc: '2.0', id: 'i', method: 'initialize' },
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 't', version: '1' } },
}
const OTC_CALL = { request: { tool_id: 'Note.Write', call_id: 'k-1', input: {} } }

/** Bodies of the routes that require one. */
const BODIES: Readonly<Record<string, unknown>> = {
  'POST /v1/runs/:runId/interrupts/:nodeId': { resumeValue: { action: 'accept' } },
  'POST /v1/interrupts/:token': { resumeValue: { action: 'accept' } },
  'POST /v1/sessions': { toolId: 'openwop:Note.Keep' },
  'GET /tools': undefined,
  'GET /uts/tools': undefined,
  'POST /admin/sign-in': {},
  'POST /tools/call': OTC_CALL,
  'POST /call': OTC_CALL,
  'POST /tools/execute': OTC_CALL,
  'POST /execute': OTC_CALL,
  'POST /uts/tools/call': OTC_CALL,
  'POST /opentool/call': { jsonrpc: '2.0', method: 'Note_Write', params: {}, id: 'o' },
  'POST /opentool/streamCall': { jsonrpc: '2.0', method: 'Note_Write', params: {}, id: 'o' },
  'POST /mcp': INITIALIZE,
  'POST /mcp/:toolset': INITIALIZE,
  'POST /admin/calls/:record/settle': { as: 'failed', why: 'seen' },
  'POST /admin/approvals/:id/approve': {},
  'POST /admin/approvals/:id/reject': {},
  'POST /admin/approvals/:id/link': { approver: 'ann' },
  'POST /admin/approvals/:id/rule-preview': {},
  'POST /admin/rules': {
    approval: 'a',
    conditions: [{ path: '', any: true }],
    expires_at: '2099-01-01T00:00:00Z',
  },
  'POST /admin/receipts': { records: ['r'] },
  'POST /admin/receipts/keys': {},
  'POST /admin/keys': { principal: 'ann' },
  'POST /admin/principals/:principal/keys': {},
  'POST /admin/pins/accept': { source: 'K' },
  'POST /admin/webhooks/test': {},
  'POST /admin/pins/:tool/accept': {},
  'POST /admin/pins/:tool/reject': {},
  'POST /admin/secrets': { principal: 'key:ann', name: 'n', kind: 'secret', value: 'v' },
  'POST /admin/sources': { key: 'K', options: { type: 'otc', url: 'http://127.0.0.1:9' } },
  'POST /admin/sources/find': { options: [] },
  'POST /admin/sources/:key/set': { changes: {} },
  'POST /admin/sources/:key/refresh': {},
  'POST /admin/sources/:key/check': {},
  'POST /admin/sources/probe': {},
  'POST /admin/providers/:id/connect': {},
  'POST /admin/reload': {},
  'POST /admin/journal/verify': {},
  'POST /console/session': { key: KEY },
}

/** Sends a request with the credential of its kind of caller. */
async function ask(
  route: string,
  path: string,
  body: unknown = BODIES[route],
  more: Readonly<Record<string, string>> = {},
): Promise<Response> {
  const method = route.slice(0, route.indexOf(' '))
  const isOperator = path.startsWith('/admin/') || path.includes('/interrupts/')
  return await fetch(`${server.url}${path}`, {
    method,
    headers: {
      ...(isOperator ? { authorization: `Bearer ${startToken}` } : { 'x-api-key': KEY }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(path === '/mcp' && mcpSession !== undefined ? { 'mcp-session-id': mcpSession } : {}),
      ...more,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

/** Routes that the server answers without the store, with this status. */
const WITHOUT_STORE: Readonly<Record<string, number>> = {
  'GET /': 200,
  // Served only if the public address of the server is https.
  'GET /oauth/client-metadata.json': 404,
  'GET /.well-known/openwop': 200,
  'GET /v1': 200,
  'GET /v1/openapi.json': 200,
  'GET /admin/openapi.json': 200,
  'GET /v1/schemas': 200,
  'GET /v1/schemas/:name': 404,
  'GET /v1/tools': 200,
  'GET /v1/tools/:toolId': 404,
  'GET /uts/info': 200,
  'GET /tools': 200,
  'GET /uts/tools': 200,
  'GET /openapi.json': 200,
  'GET /opentool': 200,
  'GET /opentool/version': 200,
  'GET /opentool/load': 200,
  // Its state is in this process and is released; the store is updated later.
  'DELETE /v1/sessions/:sessionId': 204,
  // The config has no toolsets.
  'POST /mcp/:toolset': 404,
  'GET /mcp/:toolset': 404,
  'DELETE /mcp/:toolset': 404,
  'GET /admin/sources': 200,
  ...{ 'GET /admin/tool-count': 200, 'GET /admin/tool-cost': 200 },
  // The config has none.
  'POST /admin/webhooks/test': 400,
  // There is no such tool in the catalog.
  'GET /admin/tools/:tool': 404,
  'GET /admin/tools/:tool/usage': 404,
  'POST /admin/sources/:key/refresh': 400,
  'POST /admin/sources/:key/check': 400,
  'POST /admin/sources/probe': 400,
  // The config has no providers.
  'POST /admin/providers/:id/connect': 404,
  // It reads a file, which this server does not have.
  'POST /admin/reload': 400,
  // Addresses and limits are in the config.
  ...{ 'GET /admin/server': 200, 'GET /admin/limits': 200 },
  'GET /metrics': 403,
  // The card and the catalog are made of settings.
  ...{ 'GET /mcp/server-card': 200, 'GET /.well-known/ai-catalog.json': 200 },
  // Without an issuer, OAuth requests get the advice to use a key.
  'GET /.well-known/oauth-authorization-server': 404,
  ...{ 'POST /register': 400, 'GET /authorize': 400, 'POST /token': 400 },
  // Without a sign-in the page shows nothing; signing in needs only what this process signed.
  'GET /approvals': 403,
  'POST /approvals/:id/:verb': 403,
  'GET /sign-in/:code': 404,
  'POST /admin/sign-in': 200,
  // The console is not built here; keys of the config need no store, and without a cookie there is no session.
  ...{ 'GET /console': 404, 'GET /console/': 404, 'GET /console/assets/:file': 404 },
  ...{ 'GET /console/verify': 404, 'GET /console/:name': 404, 'GET /console/:place/:id': 404 },
  ...{ 'GET /console/session': 200, 'POST /console/session': 200, 'DELETE /console/session': 204 },
}

function nameOf({ method, path }: ServerRoute): string {
  return `${method} ${path}`
}

/** Parameters without which a request is refused before it needs the store. */
const QUERIES: Readonly<Record<string, string>> = {
  'GET /oauth/callback': '?state=s&code=c',
  'GET /admin/tool-search': '?q=send',
  'GET /admin/calls/conversation': '?run=r',
}

function pathOf(route: ServerRoute): string {
  const path = route.path.replaceAll(/:([A-Za-z]+)/g, (_, parameter: string) => known[parameter] ?? '-')
  return `${path}${QUERIES[nameOf(route)] ?? ''}`
}

/** Whether the answer states, as its protocol does, that nothing was done and when to retry. */
function asksForRetry({ status, headers }: Response, text: string): boolean {
  const isSaid =
    status === 503 || headers.get('collet-error-code') === 'not_ready' || text.includes('"not_ready"')
  return isSaid && (Number(headers.get('retry-after')) >= 1 || text.includes('retry_after_ms'))
}

it('every route of every protocol asks its caller to retry while the store is unavailable (rule 11)', async () => {
  fixture.isAway = () => true
  // Health is 503 after a write has failed.
  await ask('POST /tools/call', '/tools/call')
  const wrong: string[] = []
  for (const route of fixture.routes) {
    const name = nameOf(route)
    const response = await ask(name, pathOf(route))
    const text = await response.text()
    const expected = WITHOUT_STORE[name]
    const isRight = expected === undefined ? asksForRetry(response, text) : response.status === expected
    if (!isRight) wrong.push(`${name}: ${response.status} ${text.slice(0, 200)}`)
  }
  expect(wrong).toEqual([])
  const names = fixture.routes.map(nameOf)
  expect(
    [...Object.keys(WITHOUT_STORE), ...Object.keys(BODIES)].filter((name) => !names.includes(name)),
  ).toEqual([])
  expect(
    fixture.routes
      .filter(({ body }) => body === 'json')
      .map(nameOf)
      .filter((name) => !(name in BODIES)),
  ).toEqual([])
})

it('no route asks to retry a request that may have taken effect (rule 11)', async () => {
  fixture.isAway = () => true
  fixture.failsAs = 'unknown'
  const answers: { readonly name: string; readonly invites: boolean }[] = []
  for (const route of fixture.routes) {
    const { headers, text } = await ask(nameOf(route), pathOf(route)).then(async (response) => ({
      headers: response.headers,
      text: await response.text(),
    }))
    if (!text.includes('not known whether this request took effect')) continue
    const invites = headers.has('retry-after') || headers.has('x-should-retry') || /retry_?after/i.test(text)
    answers.push({ name: nameOf(route), invites })
  }
  fixture.failsAs = 'full'
  expect(answers.filter(({ invites }) => invites)).toEqual([])
  const owners = ['/v1/', '/mcp', '/admin/']
  expect(owners.filter((owner) => !answers.some(({ name }) => name.includes(owner)))).toEqual([])
})

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
}

it.each([
  ['2026-07-28', 'tools/call', { name: 'Note_Write', arguments: {}, _meta: META }],
  ['2025-11-25', 'tools/call', { name: 'Note_Write', arguments: {} }],
  ['2025-11-25', 'tools/list', {}],
  ['2025-11-25', 'ping', {}],
  ['2025-11-25', 'initialize', INITIALIZE.params],
])('MCP-20: %s, %s is answered under its id', async (version, method, params) => {
  fixture.isAway = () => true
  const standard = { 'mcp-protocol-version': version, 'mcp-method': method, 'mcp-name': 'Note_Write' }
  const response = await ask('POST /mcp', '/mcp', { jsonrpc: '2.0', id: 'm-1', method, params }, standard)
  expect([response.status, Number(response.headers.get('retry-after')) >= 1]).toEqual([503, true])
  expect(await response.json()).toMatchObject({ jsonrpc: '2.0', id: 'm-1', error: { code: 503 } })
})

it('rule 11: an outage does not fill the log, however many requests arrive', async () => {
  fixture.isAway = () => true
  fixture.lines.length = 0
  for (let asked = 0; asked < 5; asked += 1) {
    await ask('POST /mcp', '/mcp')
    await ask('POST /mcp', '/mcp', { jsonrpc: '2.0', id: 'p', method: 'ping' })
    await ask('GET /admin/approvals', '/admin/approvals')
  }
  expect(fixture.lines.length).toBeLessThan(5)
})
