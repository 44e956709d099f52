import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tool } from '#kernel/tool/define'
import { serve } from '#server/create-gateway'
import type { RunningServer } from '#server/start-server'
import { DocumentCheck } from '../conformance/openapi-check.ts'
import { surfaceOf } from './admin-surface.ts'

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, object>>>>
  readonly components: object
}

const folder = mkdtempSync(join(tmpdir(), 'collet-admin-api-'))
let server: RunningServer
let check: DocumentCheck<Document>

const pay = tool({
  id: 'Bank.Pay@1.0.0',
  description: 'Pays.',
  input: {},
  output: {},
  policy: { safetyTier: 'write', approval: 'always' },
  run: () => 'paid',
})

beforeAll(async () => {
  const config = { tools: [pay], server: { port: 0 }, log: { level: 'silent' as const } }
  server = await serve(config, { folder })
  const document: Document = JSON.parse(await (await fetch(`${server.url}/admin/openapi.json`)).text())
  check = new DocumentCheck(document)
})
afterAll(async () => {
  await server.close()
  rmSync(folder, { recursive: true })
})

/** Sends a request as the operator; returns the answer and its deviations from the document. */
async function ask(method: string, route: string, path = route, body?: unknown) {
  const reply = await fetch(`${server.url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${readFileSync(server.startTokenFile, 'utf8').trim()}`,
      'content-type': 'application/json',
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await reply.text()
  const findings = check.findings({ method, path: route, status: reply.status, text })
  return { status: reply.status, json: JSON.parse(text), findings }
}

describe('the admin API in /admin/openapi.json', () => {
  it('has exactly the routes of the server', () => {
    const documented = Object.entries(check.document.paths)
      .filter(([path]) => path.startsWith('/admin/'))
      .flatMap(([path, item]) => Object.keys(item).flatMap((method) => nameOf(method, path)))
    const served = server.routes
      .filter(({ path }) => path.startsWith('/admin/'))
      .map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`)
    expect(documented.toSorted()).toEqual(served.toSorted())
  })

  it('is separate from the document of the protocol', async () => {
    const protocol: Document = JSON.parse(await (await fetch(`${server.url}/openapi.json`)).text())
    expect(Object.keys(protocol.paths).filter((path) => path.startsWith('/admin'))).toEqual([])
    expect(Object.keys(check.document.paths).every((path) => path.startsWith('/admin/'))).toBe(true)
  })

  it('keeps every parameter, body member, required answer member and status that clients know', () => {
    const known = readFileSync(new URL('../../vectors/admin-surface.txt', import.meta.url), 'utf8')
    const surface = surfaceOf(check.document)
    expect(
      known
        .trimEnd()
        .split('\n')
        .filter((line) => !surface.has(line)),
    ).toEqual([])
  })

  it('spells members in snake_case, except inside options of sources', () => {
    const members = [...surfaceOf(check.document)].map((line) => line.split(/[ .]/).at(-1) ?? '')
    const operationIds = /^[a-z]+(?:[A-Z][a-z]+)+$/
    expect(
      members.filter((name) => /[A-Z]/.test(name) && !operationIds.test(name) && name !== 'Last-Event-ID'),
    ).toEqual([])
  })

  it('references only definitions that it contains', () => {
    const text = JSON.stringify(check.document)
    const named = [...text.matchAll(/"#\/components\/(\w+)\/(\w+)"/g)].map(([, kind, name]) => [kind, name])
    const unknown = named.filter(([kind = '', name = '']) => {
      const group: unknown = Reflect.get(check.document.components, kind)
      return typeof group !== 'object' || group === null || !(name in group)
    })
    expect(unknown).toEqual([])
  })

  it('describes the answers of lists', async () => {
    const lists = [
      ...[
        'calls',
        'audit',
        'keys',
        'tools',
        'tool-count',
        'toolsets',
        'pins',
        'secrets',
        'sources',
        'approvals',
      ],
      ...['server', 'server/onboarding', 'limits', 'journal'],
    ]
    const answers = await Promise.all(lists.map((name) => ask('GET', `/admin/${name}`)))
    expect(answers.map(({ status }) => status)).toEqual(lists.map(() => 200))
    expect(answers.flatMap(({ findings }) => findings)).toEqual([])
  })

  it('describes the answers of create, show and delete operations', async () => {
    await fetch(`${server.url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ request: { tool_id: 'Bank.Pay', call_id: 'c-1', input: {} } }),
    })
    const secret = { name: 'pin', principal: 'key:ann', value: 'secret' }
    const made = [
      await ask('GET', '/admin/calls'),
      await ask('GET', '/admin/approvals'),
      await ask('POST', '/admin/keys', '/admin/keys', { principal: 'ann' }),
      await ask('GET', '/admin/keys'),
      await ask('POST', '/admin/secrets', '/admin/secrets', secret),
      await ask('GET', '/admin/secrets'),
      await ask('GET', '/admin/tools/:tool', '/admin/tools/Bank.Pay'),
      await ask('GET', '/admin/tools/:tool', '/admin/tools/Bank.Pry'),
      await ask('GET', '/admin/tools/:tool/usage', '/admin/tools/Bank.Pay/usage'),
      await ask('POST', '/admin/keys', '/admin/keys', { principal: '' }),
      await ask('DELETE', '/admin/keys/:key_id', '/admin/keys/unknown'),
    ]
    expect(made.flatMap(({ findings }) => findings)).toEqual([])
    const [id] = made[1]?.json.approvals.map((approval: { readonly id: string }) => approval.id) ?? []
    const decided = [
      await ask('GET', '/admin/approvals/:id', `/admin/approvals/${id}`),
      await ask('POST', '/admin/approvals/:id/reject', `/admin/approvals/${id}/reject`, { reason: 'no' }),
      await ask('POST', '/admin/approvals/:id/approve', `/admin/approvals/${id}/approve`, {}),
    ]
    expect(decided.map(({ status }) => status)).toEqual([200, 200, 409])
    expect(decided.flatMap(({ findings }) => findings)).toEqual([])
  })
})

function nameOf(method: string, path: string): readonly string[] {
  return method === 'parameters' ? [] : [`${method.toUpperCase()} ${path}`]
}
