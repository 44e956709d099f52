import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { startServer } from '#server/start-server'
import { ask, events, nextOf } from '../conformance/mcp-talk.ts'
import { testSettings } from '../test-settings.ts'
import { type Answer, key, type PrincipalsServer, startPrincipalsServer, TOOLS } from './principals-server.ts'

const TOOLSETS: NonNullable<Settings['toolsets']> = new Map([
  ['mail', { include: ['Mail.*', 'Open.Say'], exclude: [] }],
  ['safe', { include: ['*'], exclude: ['source:Note'], tier: 'read' }],
  ['notes', { include: ['Note_Keep'], exclude: [] }],
])

let server: PrincipalsServer

beforeAll(async () => {
  server = await startPrincipalsServer({
    toolsets: TOOLSETS,
    auth: {
      apiKeys: [
        key('root', ['*']),
        key('mailer', ['*'], { tools: ['toolset:mail'] }),
        key('clerk', ['mail:*'], { roles: ['clerk'] }),
        key('keeper', ['*'], { tools: ['toolset:mail'], roles: ['admin'] }),
        key('sayer', ['*'], { tools: ['Open.*', 'Mail.*'] }),
        key('auditor', ['audit:read']),
      ],
      jwt: undefined,
      roles: new Map([
        ['clerk', { scopes: ['notes:keep'], toolsets: ['mail', 'notes'] }],
        ['admin', { scopes: ['admin:keys'], toolsets: ['mail'] }],
      ]),
    },
  })
})

afterAll(() => server.stop())

const CLAIM = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
  'io.modelcontextprotocol/clientCapabilities': {},
}

function overMcp(
  path: string,
  credential: string,
  method: string,
  more: Record<string, unknown> = {},
): Promise<Answer> {
  const headers = {
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': method,
    ...(typeof more.name === 'string' ? { 'mcp-name': more.name } : {}),
  }
  const body = { jsonrpc: '2.0', id: 1, method, params: { ...more, _meta: CLAIM } }
  return server.ask(path, { method: 'POST', key: credential, headers, body })
}

async function namesAt(path: string, credential: string): Promise<readonly string[]> {
  const { json } = await overMcp(path, credential, 'tools/list')
  return json.result.tools.map(({ name }: { name: string }) => name).toSorted()
}

describe('/mcp/<toolset>', () => {
  it('lists and calls only the tools of the toolset', async () => {
    expect(await namesAt('/mcp/mail', 'k-root')).toEqual(['Mail_Send', 'Open_Say'])
    expect(await namesAt('/mcp/safe', 'k-root')).toEqual(['Files_Read', 'Open_Say'])
    expect(await namesAt('/mcp', 'k-root')).toHaveLength(4)
    const called = await overMcp('/mcp/mail', 'k-root', 'tools/call', { name: 'Open_Say', arguments: {} })
    expect(called.json.result.structuredContent ?? called.json.result.content[0].text).toBe('done')
    const [hidden, unknown] = [
      await overMcp('/mcp/mail', 'k-root', 'tools/call', { name: 'Files_Read', arguments: {} }),
      await overMcp('/mcp/mail', 'k-root', 'tools/call', { name: 'Filez_Read', arguments: {} }),
    ]
    expect(hidden.status).toBe(unknown.status)
    expect(hidden.text).toBe(unknown.text.replaceAll('Filez_Read', 'Files_Read'))
  })

  it('is 404 for an unknown toolset, and suggests a similar name', async () => {
    const answer = await overMcp('/mcp/mial', 'k-root', 'tools/list')
    expect([answer.status, answer.json.error.message]).toEqual([
      404,
      'There is no toolset "mial" here. Did you mean "mail"?',
    ])
    expect((await overMcp('/mcp/mail', 'k-wrong', 'tools/list')).status).toBe(401)
  })

  it('rule 2: a toolset without access for the caller answers like an unknown one', async () => {
    // The toolset contains one tool of the caller, or the caller is limited to single tools outside it.
    for (const [credential, name] of [
      ['k-mailer', 'safe'],
      ['k-sayer', 'notes'],
    ] as const) {
      const hidden = await overMcp(`/mcp/${name}`, credential, 'tools/list')
      const unknown = await overMcp('/mcp/there', credential, 'tools/list')
      expect(hidden.status).toBe(404)
      expect(hidden.text).toBe(unknown.text.replaceAll('there', name))
    }
  })
})

describe('the header Collet-Toolset', () => {
  const within = (path: string, toolset: string, more: object = {}) =>
    server.ask(path, { key: 'k-root', headers: { 'collet-toolset': toolset }, ...more })

  it.each(['/tools', '/v1/tools', '/opentool/load'])('narrows %s', async (path) => {
    const { text } = await within(path, 'mail')
    expect(text).toMatch(/Mail.Send/)
    expect(text).toMatch(/Open.Say/)
    expect(text).not.toMatch(/Files|Note/)
    const unknown = await within(path, 'mial')
    expect(unknown.status).toBe(404)
    expect(unknown.text).toMatch(/Did you mean/)
  })

  it('narrows calls by every protocol', async () => {
    const otc = (id: string) => ({ $schema: 'urn:oxp:1.0', request: { tool_id: id, input: {} } })
    const call = (id: string) => within('/tools/call', 'mail', { method: 'POST', body: otc(id) })
    expect((await call('Open.Say')).json.result.success).toBe(true)
    expect((await call('Files.Read')).headers['collet-error-code']).toBe('tool_not_found')
    const rpc = { jsonrpc: '2.0', method: 'Files_Read', params: {}, id: 'x' }
    const opentool = await within('/opentool/call', 'mail', { method: 'POST', body: rpc })
    expect(opentool.headers['collet-error-code']).toBe('tool_not_found')
    expect((await within('/v1/tools/openwop:Files.Read', 'mail')).status).toBe(404)
    expect((await within('/v1/tools/openwop:Open.Say', 'mail')).status).toBe(200)
  })

  it('must not contradict the path', async () => {
    const both = (toolset: string) =>
      server.ask('/mcp/mail', {
        method: 'POST',
        key: 'k-root',
        headers: { 'collet-toolset': toolset },
        body: {},
      })
    expect((await both('safe')).json.error.message).toMatch(/names the toolset "mail"/)
    expect((await both('mail')).json.error.message).not.toMatch(/toolset/)
  })
})

describe('a credential with toolsets', () => {
  it('sees only their tools, as far as its scopes allow', async () => {
    expect(await namesAt('/mcp', 'k-mailer')).toEqual(['Mail_Send', 'Open_Say'])
    expect(await namesAt('/mcp/mail', 'k-mailer')).toEqual(['Mail_Send', 'Open_Say'])
    expect(await namesAt('/mcp/safe', 'k-sayer')).toEqual(['Open_Say'])
    expect(await namesAt('/mcp', 'k-clerk')).toEqual(['Mail_Send', 'Note_Keep', 'Open_Say'])
    expect(await namesAt('/mcp/notes', 'k-clerk')).toEqual(['Note_Keep'])
  })

  it('rule 30a: its requests for other tools are audited', async () => {
    await overMcp('/mcp', 'k-mailer', 'tools/call', { name: 'Files_Read', arguments: {} })
    await expect
      .poll(async () => (await server.ask('/admin/audit', { key: 'k-auditor' })).text, { timeout: 3_000 })
      .toMatch(/openwop:Files.Read","reason":"allowlist"/)
  })

  it('cannot grant more than it has', async () => {
    const make = (body: object) => server.ask('/admin/keys', { method: 'POST', key: 'k-keeper', body })
    expect((await make({ principal: 'a' })).status).toBe(403)
    expect((await make({ principal: 'b', toolsets: ['notes'] })).status).toBe(403)
    expect((await make({ principal: 'c', tools: ['*'] })).status).toBe(403)
    expect((await make({ principal: 'd', tools: ['Files.Read'] })).status).toBe(403)
    expect((await make({ principal: 'e', toolsets: ['mail'] })).status).toBe(201)
    expect((await make({ principal: 'f', tools: ['Mail_Send'] })).status).toBe(201)
  })
})

describe('GET /admin/toolsets', () => {
  it('shows how many tools each has and which callers are limited to it', async () => {
    const { json } = await server.ask('/admin/toolsets', { key: 'k-root' })
    expect(json.toolsets).toMatchObject([
      {
        name: 'mail',
        path: '/mcp/mail',
        tools: ['Open.Say@1.0.0', 'Mail.Send@1.0.0', 'Mail.Send@2.0.0'],
        keys: expect.arrayContaining(['mailer (acme)', 'keeper (acme)']),
        roles: ['clerk', 'admin'],
      },
      { name: 'safe', tier: 'read', tools: ['Open.Say@1.0.0', 'Files.Read@1.0.0'], keys: [], roles: [] },
      { name: 'notes', roles: ['clerk'] },
    ])
    expect((await server.ask('/admin/toolsets', { key: 'k-mailer' })).status).toBe(200)
    expect((await server.ask('/admin/toolsets', { key: 'k-clerk' })).status).toBe(403)
  })

  it('rule 2: shows a limited caller nothing about tools outside of its toolset', async () => {
    const { text } = await server.ask('/admin/toolsets', { key: 'k-keeper' })
    expect(text).toMatch(/Mail.Send/)
    expect(text).not.toMatch(/Files|Note|notes/)
  })
})

describe('a new key', () => {
  const make = (body: object) =>
    server.ask('/admin/keys', { method: 'POST', key: 'k-root', body: { tenant: 'acme', ...body } })

  it('accepts any spelling, patterns and toolsets', async () => {
    const { json } = await make({
      principal: 'any',
      scopes: ['*'],
      tools: ['Files_*', 'Open.Say@1'],
      toolsets: ['notes'],
    })
    expect(json.warnings).toEqual([])
    expect(await namesAt('/mcp', json.key)).toEqual(['Files_Read', 'Note_Keep', 'Open_Say'])
    const { json: listed } = await server.ask('/admin/keys', { key: 'k-root' })
    expect(listed.keys[0]).toMatchObject({ tools: ['Files_*', 'Open.Say@1'], toolsets: ['notes'] })
  })

  it.each([
    [{ roles: ['clrek'] }, 'There is no role "clrek" in auth.roles. Did you mean "clerk"?'],
    [{ toolsets: ['mial'] }, 'There is no toolset "mial". Did you mean "mail"?'],
    [{ tools: ['Mail.Sendd'] }, 'There is no tool "Mail.Sendd". Did you mean "Mail.Send"?'],
    [{ tools: ['not a name'] }, 'tools.0: is neither a tool name'],
  ])('is refused with %j, which would grant nothing', async (body, message) => {
    const { status, json } = await make({ principal: 'wrong', ...body })
    expect([status, json.message]).toEqual([400, expect.stringContaining(message)])
  })

  it.each([
    [{ tools: ['Mial.*'] }, '"Mial.*" matches no tool. Did you mean "Mail.*"?'],
    [{ tools: ['source:Mial'] }, 'There is no source "Mial". Did you mean "Mail"?'],
    [{ tools: ['tag:crm'] }, 'No tool has the tag "crm".'],
    [
      { scopes: ['mail:sent'] },
      'No tool or route here needs the scope "mail:sent". Did you mean "mail:send"?',
    ],
  ])('is made with %j, and a warning', async (body, message) => {
    const principal = `w${Math.abs(JSON.stringify(body).length)}${Object.keys(body)[0]}${message.length}`
    const { status, json } = await make({ principal, ...body })
    expect([status, json.warnings]).toEqual([201, [message]])
  })
})

it('MCP-46: a subscriber of a toolset is notified when its tools change, and of nothing else', async () => {
  const settings = testSettings({ tools: TOOLS, toolsets: TOOLSETS })
  const started = await startServer(settings, { graceMs: 0 })
  const listen = { method: 'subscriptions/listen', params: { notifications: { toolsListChanged: true } } }
  const open = async (toolset: string) => {
    const stream = events(await ask(started.url, listen, { headers: { 'Collet-Toolset': toolset } }))
    await nextOf(stream)
    return stream
  }
  const [mail, other] = [await open('mail'), await open('safe')]
  const narrower = new Map([...TOOLSETS, ['safe', { include: ['Files.*'], exclude: [] }]])
  expect((await started.reload({ ...settings, toolsets: narrower })).applied).toEqual(['toolsets'])
  expect(await nextOf(other)).toMatchObject({ method: 'notifications/tools/list_changed' })
  const closing = started.close()
  expect(await nextOf(mail)).toMatchObject({ result: { resultType: 'complete' } })
  await closing
})

it('patterns that match no tool are reported at the start', async () => {
  const toolsets = new Map([['mail', { include: ['Mial.*'], exclude: [] }]])
  const started = await startServer(testSettings({ tools: TOOLS, toolsets }), { graceMs: 0 })
  expect(started.warnings).toContainEqual(
    'toolsets.mail.include: "Mial.*" matches no tool. Did you mean "Mail.*"?',
  )
  await started.close()
})

it.each([
  ['the wide one first', ['k-root', 'k-mailer']],
  ['the narrow one first', ['k-mailer', 'k-root']],
])(
  'the listing shows no toolset to callers without access, whichever caller listed first: %s',
  async (_, order) => {
    // The first answer is cached for the next, so each order has its own server.
    const auth = {
      apiKeys: [key('root', ['*']), key('mailer', ['*'], { tools: ['toolset:mail'] })],
      jwt: undefined,
    }
    const fresh = await startPrincipalsServer({ toolsets: TOOLSETS, auth })
    try {
      const seen = async (credential: string) => {
        // One requests the toolset that the other is limited to, so both see the same tools.
        const query = credential === 'k-root' ? '?toolset=mail' : ''
        const { json } = await fresh.ask(`/admin/tools${query}`, { key: credential })
        return [credential, json.tools.find(({ id }: { id: string }) => id === 'Open.Say')?.toolsets]
      }
      for (const credential of [...order, ...order])
        expect(await seen(credential)).toEqual([
          credential,
          credential === 'k-root' ? ['mail', 'safe'] : ['mail'],
        ])
    } finally {
      await fresh.stop()
    }
  },
)
