import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Tool } from '#kernel/tool/tool'
import { API_KEY_HEADERS } from '#protocols/http-exchange'
import { FORBIDDEN_KEYWORDS } from '#protocols/openwop/codec-catalog'
import {
  type OpenwopCapabilities,
  openwopOpenApi,
  openwopRoutes,
  openwopSettings,
} from '#protocols/openwop/routes'
import { SOURCE_KINDS, type WireRunEvent } from '#protocols/openwop/wire'
import { openTestGateway } from '#testing/test-gateway'
import { sampleTool } from '../contracts/samples.ts'
import { startApp, stopApps } from '../server/start-app.ts'
import { httpSend } from './http-send.ts'
import { DocumentCheck } from './openapi-check.ts'
import { KEYS, openwopFixtures, readToolDescriptorSchema, TWO_TENANTS } from './openwop-fixtures.ts'
import { type OpenwopServer, startOpenwopServer } from './openwop-server.ts'

let server: OpenwopServer

beforeAll(async () => {
  server = await startOpenwopServer()
})

afterAll(() => server.close())
afterEach(stopApps)

describe('/.well-known/openwop', () => {
  it('OWP-01: is public, and equal for all callers', async () => {
    const open = await server.ask('/.well-known/openwop')
    expect([open.status, open.headers['content-type']]).toEqual([200, 'application/json'])
    for (const key of [KEYS.root, KEYS.narrow, 'k-nobody']) {
      const answer = await server.ask('/.well-known/openwop', { key })
      expect([answer.status, answer.text]).toEqual([200, open.text])
    }
  })

  it('OWP-02, OWP-08: has the required members, and names the implementation', async () => {
    const { json } = await server.ask('/.well-known/openwop')
    expect(json).toMatchObject({
      protocolVersion: '1.0',
      supportedEnvelopes: [],
      schemaVersions: {},
      implementation: { name: 'collet', version: expect.stringMatching(/^\d+\.\d+\.\d+/) },
    })
    expect(Object.keys(json.limits).toSorted()).toEqual([
      'clarificationRounds',
      'envelopesPerTurn',
      'schemaRounds',
    ])
  })

  it('OWP-03: families are at the root, and toolCatalog is closed', async () => {
    const { json } = await server.ask('/.well-known/openwop')
    expect(json).not.toHaveProperty('capabilities')
    expect(json.toolCatalog).toEqual({
      supported: true,
      sources: ['node-pack', 'workflow', 'mcp', 'connector', 'host-extension'],
      compactView: true,
    })
  })

  it('OWP-04: may be cached, and answers 304', async () => {
    for (const path of ['/.well-known/openwop', '/v1/openapi.json']) {
      const { headers } = await server.ask(path)
      expect(headers['cache-control']).toBe('public, max-age=300')
      const again = await server.ask(path, { headers: { 'if-none-match': headers.etag ?? '' } })
      expect([again.status, again.text]).toEqual([304, ''])
    }
  })

  it('OWP-05: advertises a source only if a tool has it', async () => {
    const tools = openwopFixtures().filter(({ source }) => source === 'mcp' || source === 'host-extension')
    const few = await startOpenwopServer({ tools })
    const { json } = await few.ask('/.well-known/openwop')
    const listed = await few.ask('/v1/tools', { key: KEYS.root })
    await few.close()
    expect(json.toolCatalog.sources).toEqual(['mcp', 'host-extension'])
    expect(listed.json.map(({ source }: { readonly source: string }) => source)).toEqual([
      'mcp',
      'host-extension',
    ])
  })

  it('OWP-05: a server without tools advertises no source', async () => {
    const none = await startOpenwopServer({ tools: [] })
    const { json } = await none.ask('/.well-known/openwop')
    const listed = await none.ask('/v1/tools', { key: KEYS.root })
    await none.close()
    expect(json.toolCatalog.sources).toEqual([])
    expect(listed.text).toBe('[]')
  })
})

/** Only the openwop routes with the given capabilities, on a real port. */
async function startWith(capabilities: OpenwopCapabilities, more: readonly Tool[] = []) {
  const gateway = openTestGateway([...openwopFixtures(), ...more])
  const routes = openwopRoutes(gateway, { serverVersion: '0.0.0-test', capabilities })
  const { url } = await startApp({ routes, auth: TWO_TENANTS })
  const send = httpSend(url)
  return async (path: string, headers: Record<string, string> = { authorization: `Bearer ${KEYS.root}` }) => {
    const { status, text } = await send({ method: 'GET', path, headers, body: undefined })
    return { status, json: JSON.parse(text) }
  }
}

describe('capabilities', () => {
  it('OWP-06: without the catalog both routes are 404, with and without a credential', async () => {
    const ask = await startWith({ toolCatalog: false })
    expect((await ask('/.well-known/openwop')).json).not.toHaveProperty('toolCatalog')
    expect(Object.keys((await ask('/v1/openapi.json')).json.paths)).toEqual([
      '/v1',
      '/.well-known/openwop',
      '/v1/openapi.json',
      '/v1/schemas',
      '/v1/schemas/{name}',
      '/v1/runs/{runId}/events',
      '/v1/runs/{runId}/events/poll',
      '/v1/runs/{runId}',
      '/v1/runs/{runId}/interrupts/{nodeId}',
      '/v1/interrupts/{token}',
    ])
    for (const path of ['/v1/tools', '/v1/tools/openwop:Who.Am', '/v1/tools/none?view=compact']) {
      for (const headers of [{}, { authorization: `Bearer ${KEYS.root}` }]) {
        const { status, json } = await ask(path, headers)
        expect([status, json.error]).toEqual([404, 'not_found'])
      }
    }
  })

  it('OWP-26: without the compact view, view=compact is an unknown parameter', async () => {
    const ask = await startWith({ compactView: false })
    expect((await ask('/.well-known/openwop')).json.toolCatalog).not.toHaveProperty('compactView')
    for (const path of ['/v1/tools', '/v1/tools/openwop:Calculator.Add']) {
      expect(await ask(`${path}?view=compact`)).toEqual(await ask(path))
    }
    expect(JSON.stringify((await ask('/v1/openapi.json')).json.paths)).not.toMatch(/compact/i)
  })

  it('OWP-05, OWP-08: sessions and further families are advertised only when they exist', async () => {
    const toolHooks = { supported: true, prePostEvents: true }
    const stateful = sampleTool('Note.Keep@1.0.0', () => 'kept', {
      session: { open: () => ({}), close: () => undefined, idleMs: 1_000 },
    })
    const ask = await startWith({ sessionLifecycle: true, families: { toolHooks } }, [stateful])
    const { json } = await ask('/.well-known/openwop')
    expect(json.toolCatalog.sessionLifecycle).toBe(true)
    expect(json.toolHooks).toEqual(toolHooks)
    const plain = await startWith({ sessionLifecycle: false })
    const { json: without } = await plain('/.well-known/openwop')
    expect(without.toolCatalog).not.toHaveProperty('sessionLifecycle')
    expect(without).not.toHaveProperty('toolHooks')
    // C3: without a stateful tool there are no sessions.
    const stateless = await startWith({ sessionLifecycle: true })
    expect((await stateless('/.well-known/openwop')).json.toolCatalog).not.toHaveProperty('sessionLifecycle')
  })
})

describe('/v1/openapi.json', () => {
  const check = new DocumentCheck(openwopOpenApi(openwopSettings({ serverVersion: '0.0.0-test' })))

  it('OWP-07: is public and OpenAPI 3.1', async () => {
    const { status, json } = await server.ask('/v1/openapi.json')
    expect([status, json.openapi]).toEqual([200, '3.1.0'])
  })

  it('has no broken reference', () => {
    expect(check.brokenReferences()).toEqual([])
  })

  it('describes exactly the routes that exist', () => {
    const documented = Object.entries(check.document.paths).flatMap(([path, item]) =>
      Object.keys(item)
        .filter((member) => member !== 'parameters')
        .map((method) => `${method.toUpperCase()} ${path}`),
    )
    const routes = openwopRoutes(openTestGateway([]), { serverVersion: '0.0.0-test' })
    const served = routes.map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`)
    expect(documented.toSorted()).toEqual(served.toSorted())
  })

  it.each(Object.entries(check.document.components.schemas))(
    '%s is a valid JSON Schema 2020-12',
    (_name, schema) => {
      expect(check.compile(schema)).toBeTypeOf('function')
    },
  )

  it('matches the code on sources, events and the keywords that a compact schema omits', () => {
    const { components, security } = check.document
    const { ToolDescriptor, CompactToolDescriptor, RunEvent } = components.schemas
    expect(security.flatMap((way) => Object.keys(way))).toEqual(['bearer', ...API_KEY_HEADERS])
    expect(ToolDescriptor.properties.source.enum).toEqual(SOURCE_KINDS)
    const {
      type: _type,
      properties: _properties,
      ...forbidden
    } = CompactToolDescriptor.properties.inputSchema.properties
    expect(Object.keys(forbidden)).toEqual(FORBIDDEN_KEYWORDS)
    const types = {
      'agent.toolCalled': true,
      'agent.toolReturned': true,
      'tool.session.opened': true,
      'tool.session.closed': true,
      'interrupt.requested': true,
      'node.suspended': true,
      'approval.granted': true,
      'approval.rejected': true,
      'approval.overridden': true,
      'interrupt.resolved': true,
      'connector.authorized': true,
      'connector.auth_expired': true,
    } satisfies Record<WireRunEvent['type'], true>
    expect(RunEvent.oneOf.map(({ properties }) => properties.type.const)).toEqual(Object.keys(types))
  })

  it.each([
    [{ toolCatalog: false }, { sessions: false, tools: false }],
    [{ sessionLifecycle: false }, { sessions: false, tools: true }],
    [{ compactView: false }, { sessions: true, tools: true }],
  ])('OWP-06, OWP-26: leaves out what is off: %j', (capabilities, has) => {
    const { paths } = openwopOpenApi(openwopSettings({ serverVersion: '1.0.0', capabilities }))
    expect([paths['/v1/sessions'] !== undefined, paths['/v1/tools'] !== undefined]).toEqual([
      has.sessions,
      has.tools,
    ])
    const text = JSON.stringify(paths)
    expect(/"view"|CompactToolDescriptor/.test(text)).toBe(has.tools && !('compactView' in capabilities))
  })

  it('OWP-30: its ToolDescriptor equals the published one, except for the texts', () => {
    const { ToolDescriptor } = check.document.components.schemas
    expect(withoutTexts(ToolDescriptor)).toEqual(withoutTexts(readToolDescriptorSchema()))
  })
})

/** A schema without its texts for readers. */
function withoutTexts(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutTexts)
  if (typeof schema !== 'object' || schema === null) return schema
  return Object.fromEntries(
    Object.entries(schema)
      .filter(
        ([name, value]) => !/^(?:description|title|\$id|\$schema|\$comment)$/.test(name) || isSchema(value),
      )
      .map(([name, value]) => [name, withoutTexts(value)]),
  )
}

/** `title` and `description` are properties too. */
function isSchema(value: unknown): boolean {
  return typeof value === 'object'
}
