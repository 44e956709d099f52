import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { requireTools } from '#kernel/tool/prepare-tools'
import { createGateway } from '#server/create-gateway'
import { key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

const made = (id: string, tenants?: readonly string[]) => ({
  id,
  description: `Does ${id}.`,
  input: z.object({}),
  output: z.string(),
  policy: { safetyTier: 'read', ...(tenants === undefined ? {} : { tenants }) },
  run: () => 'done',
})
const stateful = { ...made('Ledger.Note@1.0.0', ['acme']), session: { open: () => ({}) } }
const tools = requireTools([made('Open.Say@1.0.0'), made('Ledger.Book@1.0.0', ['acme']), stateful])

/** A fixed address, because lists contain the address of the server. */
const SERVER = {
  host: '127.0.0.1',
  port: 0,
  publicUrl: 'http://tools.test',
  bodyLimitBytes: 1_048_576,
  allowedOrigins: [],
  maxConnections: 100,
}

let server: PrincipalsServer
beforeAll(async () => {
  server = await startPrincipalsServer({
    tools,
    server: SERVER,
    auth: {
      apiKeys: [
        key('ours', ['*']),
        key('theirs', ['*'], { tenant: 'other' }),
        key('third', ['*'], { tenant: 'third' }),
      ],
      jwt: undefined,
    },
  })
})
afterAll(() => server.stop())

const MCP = (method: string, params: object) => ({
  method: 'POST',
  headers: {
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': method,
    ...('name' in params && typeof params.name === 'string' ? { 'mcp-name': params.name } : {}),
  },
  body: {
    jsonrpc: '2.0',
    id: 1,
    method,
    params: {
      ...params,
      _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
        'io.modelcontextprotocol/clientCapabilities': {},
      },
    },
  },
})
const otc = (tool: string) => ({ method: 'POST', body: { request: { tool_id: tool } } })
const opentool = (name: string) => ({
  method: 'POST',
  body: { jsonrpc: '2.0', method: name, params: {}, id: 1 },
})

/** Every request that answers with tools. */
const LISTS: readonly (readonly [string, object])[] = [
  ['/tools', {}],
  ['/v1/tools', {}],
  ['/v1/tools?view=compact', {}],
  ['/opentool/load', {}],
  ['/mcp', MCP('tools/list', {})],
]

describe('a tool that belongs to a tenant', () => {
  it('is listed to its own callers, on every protocol', async () => {
    for (const [path, asking] of LISTS) {
      const { text } = await server.ask(path, { ...asking, key: 'k-ours' })
      expect(text, path).toMatch(/Ledger[._]Book/)
    }
  })

  it('is in no list of other tenants, whose lists and ETags equal those of a server without it', async () => {
    const without = await startPrincipalsServer({
      tools: requireTools([made('Open.Say@1.0.0')]),
      server: SERVER,
      auth: { apiKeys: [key('theirs', ['*'], { tenant: 'other' })], jwt: undefined },
    })
    try {
      for (const [path, asking] of LISTS) {
        const theirs = await server.ask(path, { ...asking, key: 'k-theirs' })
        const bare = await without.ask(path, { ...asking, key: 'k-theirs' })
        expect(theirs.text, path).not.toContain('Ledger')
        expect([theirs.status, theirs.text, theirs.headers.etag], path).toEqual([
          bare.status,
          bare.text,
          bare.headers.etag,
        ])
      }
    } finally {
      await without.stop()
    }
  })

  it('is unknown to other tenants in message, status and suggestions, on every protocol', async () => {
    const shown = async (path: string, asking: object, name: string) => {
      const { status, text } = await server.ask(path, { ...asking, key: 'k-theirs' })
      return [status, text.replaceAll(name, 'X').replaceAll(/[0-9a-f-]{36}/g, 'ID')]
    }
    const same = async (ask: (name: string) => readonly [string, object], hidden: string, unknown: string) =>
      expect(await shown(...ask(hidden), hidden)).toEqual(await shown(...ask(unknown), unknown))
    await same((name) => ['/tools/call', otc(name)], 'Ledger.Book', 'Lodger.Bock')
    await same((name) => ['/tools/call', otc(name)], 'Ledger.Book@1.0.0', 'Lodger.Bock@1.0.0')
    await same((name) => ['/opentool/call', opentool(name)], 'Ledger_Book', 'Lodger_Bock')
    await same((name) => ['/mcp', MCP('tools/call', { name })], 'Ledger_Book', 'Lodger_Bock')
    await same((name) => [`/v1/tools/${name}`, {}], 'openwop:Ledger.Book', 'openwop:Lodger.Bock')
    const session = (toolId: string) => ({ method: 'POST', body: { toolId } })
    await same((name) => ['/v1/sessions', session(name)], 'openwop:Ledger.Note', 'openwop:Lodger.Nate')
    // A misspelled name gets no suggestion either.
    expect((await server.ask('/tools/call', { ...otc('Ledger.Bok'), key: 'k-theirs' })).text).not.toContain(
      'Book',
    )
    expect((await server.ask('/tools/call', { ...otc('Ledger.Bok'), key: 'k-ours' })).text).toContain('Book')
  })

  it('is called by callers of its tenant', async () => {
    expect(
      (await server.ask('/tools/call', { ...otc('Ledger.Book'), key: 'k-ours' })).json.result.value,
    ).toBe('done')
  })

  it('cannot be granted to a key of another tenant, which gets the answer for unknown tools', async () => {
    const make = (credential: string, name: string, tool: string) =>
      server.ask('/admin/keys', {
        method: 'POST',
        key: credential,
        body: { principal: name, tools: [tool], scopes: [] },
      })
    const hidden = await make('k-theirs', 'a', 'openwop:Ledger.Book')
    const unknown = await make('k-theirs', 'b', 'openwop:Lodger.Bock')
    expect(hidden.status).toBe(400)
    expect(hidden.text.replace('Ledger.Book', 'X')).toBe(unknown.text.replace('Lodger.Bock', 'X'))
    expect((await make('k-ours', 'c', 'openwop:Ledger.Book')).status).toBe(201)
  })

  it('is not reflected in the public document', async () => {
    const { json } = await server.ask('/.well-known/openwop')
    // The only tool with state is a tenant's own.
    expect(json.toolCatalog).not.toHaveProperty('sessionLifecycle')
  })

  it('is audited for the operator, and not by name for the tenant that asked', async () => {
    const audit = async (key: string) => (await server.ask('/admin/audit', { key })).text
    const startToken = readFileSync(server.startTokenFile, 'utf8').trim()
    await vi.waitFor(async () => expect(await audit(startToken)).toContain('"reason":"tenant"'), 10_000)
    expect(await audit('k-theirs')).not.toContain('Ledger')
  })
})

describe('a source that belongs to tenants', () => {
  it('offers its tools to callers of those tenants only, and a single tool to fewer of them', async () => {
    const document = {
      openapi: '3.1.0',
      info: { title: 'Files', version: '1' },
      servers: [{ url: 'http://127.0.0.1:9' }],
      paths: { '/a': { get: { operationId: 'a' } }, '/b': { get: { operationId: 'b' } } },
    }
    const folder = mkdtempSync(join(tmpdir(), 'collet-tenants-'))
    const file = join(folder, 'files.json')
    writeFileSync(file, JSON.stringify(document))
    const gateway = await createGateway({
      store: 'memory:',
      sources: {
        Files: {
          type: 'openapi',
          file,
          tenants: ['acme', 'other'],
          tools: { b: { tenants: ['acme', 'third'] } },
        },
      },
      log: { level: 'silent' },
    })
    try {
      const seen = (tenant: string) =>
        gateway.tools({ id: 'key:x', tenant, scopes: [] }).map(({ id }) => id.split('@')[0])
      expect(seen('acme')).toEqual(['Files.a', 'Files.b'])
      expect(seen('other')).toEqual(['Files.a'])
      expect(seen('third')).toEqual([])
      expect(seen('default')).toEqual([])
    } finally {
      await gateway.close()
      rmSync(folder, { recursive: true })
    }
  })
})
