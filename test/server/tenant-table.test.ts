import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type BudgetRule, NO_LIMIT } from '#stages/limits/budgets'
import { sampleTool } from '../contracts/samples.ts'
import { type Asking, key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

/** A key of one tenant names another tenant, or something that belongs to it, on every route with a name parameter. */
let server: PrincipalsServer
/** Resources of tenant beta, by the path parameter that names them. */
let betas: Readonly<Record<'record' | 'id' | 'ref' | 'keyId' | 'principal', string>>
/** Ann's answer of each route while beta had nothing. */
let seenBefore: Readonly<Record<string, unknown>>

const EVERY_DAY: BudgetRule = {
  for: 'tenant',
  of: undefined,
  windowMs: 86_400_000,
  limit: { calls: 100, milliseconds: NO_LIMIT, cost: NO_LIMIT },
}
const startToken = () => readFileSync(server.startTokenFile, 'utf8').trim()
const post = (path: string, body: object, credential: string) =>
  server.ask(path, { method: 'POST', key: credential, body })
const call = (tool: string, credential: string) =>
  post('/tools/call', { request: { tool_id: tool, call_id: `${tool}-call`, input: {} } }, credential)

beforeAll(async () => {
  server = await startPrincipalsServer(
    {
      tools: [
        sampleTool('Both.Do@1.0.0', () => 'done'),
        sampleTool('Both.Ask@1.0.0', () => 'done', { policy: { approval: 'always' } }),
      ],
      budgets: [EVERY_DAY],
      auth: { apiKeys: [key('ann', ['*']), key('ben', ['*'], { tenant: 'beta' })], jwt: undefined },
    },
    'sqlite',
  )
  seenBefore = await seenByAnn()
  for (const tool of ['Both.Do', 'Both.Ask', 'Both.Missing']) await call(tool, 'k-ben')
  // Rejections are written in batches, after a short delay.
  await vi.waitFor(async () => {
    const { json } = await server.ask('/admin/calls/rejected', { key: 'k-ben' })
    expect(json.rejected.length).toBe(1)
  }, 10_000)
  const made = await post('/admin/keys', { principal: 'bot' }, 'k-ben')
  const set = await post('/admin/secrets', { name: 'TOKEN', value: 'x', principal: '*' }, 'k-ben')
  const { calls } = (await server.ask('/admin/calls', { key: 'k-ben' })).json
  const { approvals } = (await server.ask('/admin/approvals', { key: 'k-ben' })).json
  betas = {
    ...{ record: calls[0].record, id: approvals[0].id, ref: set.json.ref },
    ...{ keyId: made.json.key_id, principal: 'bot' },
  }
})
afterAll(() => server.stop())

/** Everything of beta that a request could have changed. */
async function ofBeta(): Promise<unknown> {
  const paths = ['/admin/calls', '/admin/approvals', '/admin/keys', '/admin/secrets']
  const answers = await Promise.all(paths.map((path) => server.ask(path, { key: 'k-ben' })))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  return answers.map(({ json }) => json)
}

/** Timestamps differ between two requests, and with them the signature of a file. */
const withoutTimestamps = (text: string) =>
  text
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'moment')
    .replaceAll(/"signature":"[\w-]+"/g, '"signature":"…"')

const adminRoutes = () => server.routes.filter(({ path }) => path.startsWith('/admin/'))

/** Routes that read and take no name. Audit and journal grow by these requests: see admin-table.test.ts and journal-export.test.ts. */
const reading = () =>
  adminRoutes()
    .filter(
      ({ method, path }) =>
        method === 'GET' && !/:|\/events$|\/audit$|\/export\/(?:journal|denials)$/.test(path),
    )
    .map(({ path }) => path)

async function seenByAnn(): Promise<Readonly<Record<string, unknown>>> {
  const seen: Record<string, unknown> = {}
  for (const path of reading()) {
    const { status, text } = await server.ask(path, { key: 'k-ann' })
    seen[path] = [status, withoutTimestamps(text)]
  }
  return seen
}

describe('a key of one tenant', () => {
  it('gets equal answers with and without ?tenant= of another tenant, on every route that reads', async () => {
    expect(reading().length).toBeGreaterThan(15)
    for (const path of reading()) {
      const plain = await server.ask(path, { key: 'k-ann' })
      const named = await server.ask(`${path}?tenant=beta`, { key: 'k-ann' })
      if (named.status === 200)
        expect([path, withoutTimestamps(named.text)]).toEqual([path, withoutTimestamps(plain.text)])
      else expect([path, [400, 401, 403, 404].includes(named.status)]).toEqual([path, true])
    }
  })

  it('gets unchanged answers on every route after another tenant has calls, keys, secrets and approvals', async () => {
    const seen = await seenByAnn()
    expect(seen).toEqual(seenBefore)
    // Keys in the config, which existed before, are not shown either.
    expect(JSON.stringify(seen)).not.toMatch(/\b(?:beta|ben)\b/)
  })

  it.each([
    '/admin/overview',
    '/admin/usage',
    '/admin/budgets',
    '/admin/calls',
    '/admin/calls/stats',
    '/admin/calls/rejected',
  ])('the operator gets different answers from %s for beta and acme, so the data exists', async (path) => {
    const [acme, beta] = await Promise.all(
      ['acme', 'beta'].map((tenant) => server.ask(`${path}?tenant=${tenant}`, { key: startToken() })),
    )
    expect([acme?.status, beta?.status]).toEqual([200, 200])
    expect(withoutTimestamps(beta?.text ?? '')).not.toBe(withoutTimestamps(acme?.text ?? ''))
  })

  it('gets the answer for an unknown name for resources of another tenant, and changes nothing there', async () => {
    const before = await ofBeta()
    const taking = adminRoutes().filter(({ path }) =>
      /:(record|ref|keyId|principal)\b|approvals\/:id/.test(path),
    )
    expect(taking.length).toBeGreaterThan(8)
    const bodies: Readonly<Record<string, object>> = {
      settle: { as: 'not-run', why: 'looked' },
      link: { approver: 'key:ann', power: 'decide' },
    }
    for (const { method, path } of taking) {
      const ask = (ids: Readonly<Record<string, string>>) => {
        const filled = path.replaceAll(/:(\w+)/g, (_, name: string) => ids[name] ?? 'unknown')
        const body = method === 'POST' ? (bodies[path.split('/').at(-1) ?? ''] ?? {}) : undefined
        return server.ask(filled, { method, key: 'k-ann', ...(body === undefined ? {} : { body }) })
      }
      const [theirs, unknown] = [await ask(betas), await ask({})]
      const plain = (text: string, ids: readonly string[]) =>
        ids.reduce((short, id) => short.replaceAll(id, '?'), text)
      expect([method, path, theirs.status, plain(theirs.text, Object.values(betas))]).toEqual([
        ...[method, path, unknown.status, plain(unknown.text, ['unknown'])],
      ])
      expect([method, path, unknown.status >= 400]).toEqual([method, path, true])
    }
    expect(await ofBeta()).toEqual(before)
  })

  const NAMED: readonly (readonly [string, string, Asking])[] = [
    ['a key', '/admin/keys', { method: 'POST', body: { principal: 'spy', tenant: 'beta' } }],
    ['a rotation', '/admin/principals/bot/keys', { method: 'POST', body: { tenant: 'beta' } }],
    ['the end of a principal', '/admin/principals/bot?tenant=beta', { method: 'DELETE' }],
    [
      'a secret',
      '/admin/secrets',
      { method: 'POST', body: { name: 'TOKEN', value: 'y', principal: '*', tenant: 'beta' } },
    ],
  ]

  it.each(NAMED)('is refused %s in another tenant: %s', async (_what, path, asking) => {
    const before = await ofBeta()
    const { status } = await server.ask(path, { ...asking, key: 'k-ann' })
    expect([400, 403]).toContain(status)
    expect(await ofBeta()).toEqual(before)
    // The operator may, so the refusal is because of the tenant.
    expect((await server.ask(path, { ...asking, key: startToken() })).status).toBeLessThan(300)
  })
})
