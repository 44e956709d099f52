import { createServer } from 'node:http'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { adHocWebhook } from '#config/webhooks'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { Secret } from '#kernel/base/secret'
import { Pins } from '#sources/kit/pins'
import { openStore } from '#store/stores'
import { DocumentCheck } from '../conformance/openapi-check.ts'
import { sampleTool } from '../contracts/samples.ts'
import { sampleOffer } from '../contracts/source-contract.ts'
import { CLIENT_SECRET } from '../oauth/authorization-server.ts'
import { sampleDiscovery, sampleSource } from '../samples/sources.ts'
import { type Answer, key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

/**
 * Operations whose answers are checked elsewhere: streams, operations that need a config file (`reload.test.ts`), the start token, or an
 * ambiguous call (`admin-routes.test.ts`), exports (`journal-export.test.ts`, `receipts.test.ts`).
 */
const ELSEWHERE: readonly string[] = [
  'GET /admin/calls/events',
  ...['approvals', 'calls', 'denials', 'journal', 'receipts', 'usage'].map(
    (what) => `GET /admin/export/${what}`,
  ),
  'GET /admin/openapi.json',
  'POST /admin/calls/:record/settle',
  'POST /admin/journal/verify',
  'POST /admin/receipts',
  'POST /admin/reload',
  'POST /admin/sign-in',
  'POST /admin/sources/probe',
]

const asked = new Set<string>()
const findings: string[] = []
const receiver = createServer((_request, response) => response.end())
let server: PrincipalsServer
let check: DocumentCheck<{ readonly components: object }>

beforeAll(async () => {
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  const address = receiver.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const access = {
    authorization: [{ id: 'mail', oauth2: { scopes: ['mail.read'] } }],
    secrets: [{ id: 'PIN' }],
  }
  server = await startPrincipalsServer(
    {
      tools: [
        sampleTool('Bank.Pay@1.0.0', () => 'paid', { policy: { safetyTier: 'write', approval: 'always' } }),
        sampleTool('Bank.Read@1.0.0', () => 'read'),
        sampleTool('Mail.Read@1.0.0', () => 'read', { requirements: access }),
      ],
      toolsets: new Map([['banking', { include: ['Bank.*'], exclude: [] }]]),
      auth: {
        apiKeys: [key('root', ['*'], { tenant: 'default' }), key('caller', [], { tenant: 'default' })],
        jwt: undefined,
      },
      oauth: {
        providers: {
          mail: {
            ...{ issuer: 'http://127.0.0.1:9', clientId: 'collet', clientSecret: new Secret(CLIENT_SECRET) },
            ...{ clientAuth: 'basic', alwaysScopes: [], parameters: {} },
          },
        },
        signIn: undefined,
        allowUnboundConsent: true,
      },
      webhooks: [adHocWebhook(`http://127.0.0.1:${port}/hook`, 'json')],
      budgets: [
        {
          for: 'tenant',
          of: undefined,
          windowMs: 3_600_000,
          limit: { calls: 100, milliseconds: Number.MAX_SAFE_INTEGER, cost: Number.MAX_SAFE_INTEGER },
        },
      ],
    },
    'sqlite',
  )
  check = new DocumentCheck((await server.ask('/admin/openapi.json')).json)
})
afterAll(async () => {
  receiver.close()
  await server.stop()
})

/** Sends a request with an unrestricted key, and compares a successful answer with the declaration of its operation. */
async function ask(route: string, id = '', body?: object): Promise<Answer['json']> {
  const [method = '', path = ''] = route.split(' ')
  const [template = '', query = ''] = path.split('?')
  const target = `${template.replace(/:\w+/, encodeURIComponent(id))}${query === '' ? '' : `?${query}`}`
  const { status, text, json } = await server.ask(target, {
    ...{ method, key: 'k-root' },
    ...(method === 'POST' ? { body: body ?? {} } : {}),
  })
  expect([route, status, status < 300 ? '' : text]).toEqual([route, status, ''])
  findings.push(...check.findings({ method, path: template, status, text }))
  asked.add(`${method} ${template}`)
  return json
}

const call = async (tool: string, callId: string) =>
  await server.ask('/tools/call', {
    ...{ method: 'POST', key: 'k-caller' },
    body: { request: { tool_id: tool, call_id: callId, input: {} } },
  })

it('every admin route answers what its operation declares', async () => {
  await call('Bank.Read', 'one')
  await call('Bank.Pay', 'two')
  await call('Bank.Pay', 'three')
  await call('Bank.Nothing', 'five')
  const store = await openStore(server.settings.store, { ...server.settings, mode: 'operator' })
  const pins = new Pins({ store, clock: SYSTEM_CLOCK, log: SILENT_LOGGER })
  await pins.observe(sampleSource(), sampleDiscovery(['a', 'b', 'c'].map((name) => sampleOffer(name))))
  await pins.observe(
    sampleSource(),
    sampleDiscovery(['a', 'b', 'c'].map((name) => sampleOffer(name, { title: name }))),
  )
  await store.close()

  const { calls } = await ask('GET /admin/calls?limit=10')
  for (const { record } of calls) await ask('GET /admin/calls/:record', record)
  await ask('GET /admin/calls/stats')
  await ask('GET /admin/calls/rejected')
  await ask('GET /admin/calls/errors')
  await ask(`GET /admin/calls/conversation?run=${calls[0].run_id}`)
  await ask('POST /admin/receipts/keys')
  await ask('GET /admin/receipts/keys')

  const { approvals } = await ask('GET /admin/approvals')
  await ask('GET /admin/approvals/:id', approvals[0].id)
  await ask('POST /admin/approvals/:id/link', approvals[0].id, { approver: 'ann@example.com' })
  const { conditions } = await ask('POST /admin/approvals/:id/rule-preview', approvals[0].id)
  const expires = new Date(Date.now() + 60_000).toISOString()
  await ask('POST /admin/rules', '', { approval: approvals[0].id, conditions, expires_at: expires })
  const { rules } = await ask('GET /admin/rules')
  await ask('DELETE /admin/rules/:rule', rules[0].id)
  await ask('POST /admin/approvals/:id/reject', approvals[0].id, { reason: 'no' })
  await ask('POST /admin/approvals/:id/approve', approvals[1].id)

  await ask('POST /admin/keys', '', { principal: 'ann', tools: ['Bank.Read'], toolsets: ['banking'] })
  await ask('POST /admin/principals/:principal/keys', 'ann', { label: 'second' })
  const { keys } = await ask('GET /admin/keys')
  await ask('DELETE /admin/keys/:key_id', keys[0].key_id)
  await ask('DELETE /admin/principals/:principal', 'ann')
  await ask('GET /admin/toolsets')

  await ask('GET /admin/pins')
  await ask('GET /admin/pins/:tool', 'files.a')
  await ask('POST /admin/pins/:tool/accept', 'files.a')
  await ask('POST /admin/pins/:tool/reject', 'files.b')
  await ask('POST /admin/pins/accept', '', { source: 'files' })

  const { ref } = await ask('POST /admin/secrets', '', { name: 'PIN', principal: 'key:ann', value: '1234' })
  await ask('GET /admin/secrets')
  await ask('DELETE /admin/secrets/:ref', ref)
  await ask('GET /admin/providers')
  await ask('POST /admin/providers/:id/connect', 'mail', { principal: 'key:root' })

  const options = { type: 'mcp', command: process.execPath, args: ['-e', '0'] }
  await ask('POST /admin/sources', '', { key: 'Ended', options })
  await ask('GET /admin/sources')
  await ask('POST /admin/sources/find', '', { options: [options] })
  await ask('POST /admin/sources/:key/set', 'Ended', { changes: { trust: 'annotations' } })
  await ask('POST /admin/sources/:key/check', 'Ended')
  await ask('POST /admin/sources/:key/refresh', 'Ended')
  await ask('DELETE /admin/sources/:key', 'Ended')

  for (const name of [
    'tool-cost',
    'tool-count',
    'tools',
    'overview',
    'usage',
    'budgets',
    'limits',
    'server',
    'server/onboarding',
  ])
    await ask(`GET /admin/${name}`)
  for (const name of ['Bank.Pay', 'Mail.Read']) await ask('GET /admin/tools/:tool', name)
  await ask('GET /admin/tools/:tool/usage', 'Bank.Read')
  for (const text of ['pay+somebody', 'zzzz']) await ask(`GET /admin/tool-search?q=${text}`)
  for (const name of ['journal', 'journal/events', 'audit', 'webhooks']) await ask(`GET /admin/${name}`)
  await ask('POST /admin/webhooks/test')

  expect(findings).toEqual([])
  const served = server.routes.filter(({ path }) => path.startsWith('/admin/'))
  const open = served.map(({ method, path }) => `${method} ${path}`).filter((route) => !asked.has(route))
  expect(open.toSorted()).toEqual(ELSEWHERE.toSorted())
}, 60_000)
