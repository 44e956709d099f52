import { rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect } from '#client/index'
import { type RunningServer, startServer } from '#server/start-server'
import { FakeIo } from '../cli/fake-io.ts'
import { sampleTool } from '../contracts/samples.ts'
import { testSettings } from '../test-settings.ts'

const GOOGLE = { id: 'google', oauth2: { scopes: ['mail.read'] }, internal: 'note of its author' }

/** A plain tool of the RFC: no tier, no policy. */
const PLAIN = { description: 'Adds two numbers together.' }

const tools = [
  sampleTool('Calculator.Add@1.0.0', () => 3, PLAIN),
  sampleTool('Clock.Read@1.0.0', () => 'now', { policy: { safetyTier: 'read', replay: 'idempotent' } }),
  sampleTool('Bank.Pay@1.0.0', () => 'paid', { policy: { approval: 'always', costHint: 'high' } }),
  sampleTool('Mail.Send@2.0.0', () => 'sent', {
    requirements: { authorization: [GOOGLE], secrets: [{ id: 'SMS_KEY' }], userId: true },
    policy: { approval: 'conditional', egress: 'safe-fetch' },
  }),
]
const settings = testSettings({ tools })
let server: RunningServer

beforeAll(async () => {
  server = await startServer(settings, { graceMs: 0 })
})

afterAll(async () => {
  await server.close()
  rmSync(settings.dataFolder, { recursive: true })
})

// biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
async function ask(path: string, init: RequestInit = {}): Promise<any> {
  return await (await fetch(server.url + path, init)).json()
}

describe('facts about a tool that a caller can read before a call', () => {
  it('OTC-37, OTC-49: a definition has the required approval, and no requirements where none are needed', async () => {
    const { tools: listed } = await ask('/tools?schema=otc://1.0')
    expect(listed.map(({ id, requirements }: Record<string, unknown>) => [id, requirements])).toEqual([
      ['Calculator.Add@1.0.0', undefined],
      ['Clock.Read@1.0.0', undefined],
      ['Bank.Pay@1.0.0', { approval: 'always' }],
      [
        'Mail.Send@2.0.0',
        { authorization: [GOOGLE], secrets: [{ id: 'SMS_KEY' }], user_id: true, approval: 'conditional' },
      ],
    ])
    expect(JSON.stringify(listed[0])).toBe(
      '{"id":"Calculator.Add@1.0.0","name":"Calculator_Add","description":"Adds two numbers together.",' +
        '"version":"1.0.0","input_schema":{"parameters":{}},"output_schema":{}}',
    )
  })

  it('OTC-41, C-32: the list has danger and names of each tool beside the closed definitions, in every dialect', async () => {
    const facts = {
      'Calculator.Add@1.0.0': {
        catalog_id: 'openwop:Calculator.Add',
        safety_tier: 'write',
      },
      'Clock.Read@1.0.0': {
        catalog_id: 'openwop:Clock.Read',
        safety_tier: 'read',
        replay_policy: 'idempotent',
      },
      'Bank.Pay@1.0.0': {
        catalog_id: 'openwop:Bank.Pay',
        safety_tier: 'write',
        approval: 'always',
        cost_hint: 'high',
      },
      'Mail.Send@2.0.0': {
        catalog_id: 'openwop:Mail.Send',
        safety_tier: 'write',
        approval: 'conditional',
        egress: 'safe-fetch',
        credential: true,
      },
    }
    const asked = [
      ask('/tools'),
      ask('/tools?schema=otc://1.0'),
      ask('/tools', { headers: { 'OXP-Version': '1.0' } }),
    ]
    for (const list of await Promise.all(asked)) expect(list.tool_facts).toEqual(facts)
    expect(await ask('/uts/tools')).toHaveLength(4)
  })

  it('MCP-56: MCP has hints, and the rest under _meta', async () => {
    const { result } = await ask('/mcp', {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/list',
      },
      body: JSON.stringify({
        ...{ jsonrpc: '2.0', id: 1, method: 'tools/list' },
        params: {
          _meta: {
            'io.modelcontextprotocol/protocolVersion': '2026-07-28',
            'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      }),
    })
    const reported = Object.fromEntries(
      result.tools.map(({ name, _meta }: { name: string; _meta: Record<string, unknown> }) => [
        name,
        _meta['collet/tool'],
      ]),
    )
    expect(reported.Clock_Read).toEqual({
      ...{ id: 'Clock.Read@1.0.0', catalogId: 'openwop:Clock.Read' },
      ...{ safetyTier: 'read', replay: 'idempotent' },
    })
    expect(reported.Mail_Send).toEqual({
      ...{ id: 'Mail.Send@2.0.0', catalogId: 'openwop:Mail.Send' },
      ...{ safetyTier: 'write', egress: 'safe-fetch' },
      ...{ approval: 'conditional', credential: true },
      requirements: {
        authorization: [{ id: 'google', scopes: ['mail.read'] }],
        ...{ secrets: ['SMS_KEY'], userId: true },
      },
    })
  })

  it('OTS-23: OpenTool has them for the model in the description, and for programs under x-collet', async () => {
    const { functions } = await ask('/opentool/load')
    const [add, , pay, send] = functions
    expect(add.description).toBe('Adds two numbers together.')
    expect(pay.description).toMatch(/\. A person has to approve each call\.$/)
    expect(send.description).toMatch(
      /\. A person may have to approve the call\. Needs an authorization from google and the secret SMS_KEY and a user id\.$/,
    )
    expect(pay['x-collet']).toMatchObject({ id: 'Bank.Pay@1.0.0', safetyTier: 'write', approval: 'always' })
    expect(JSON.stringify(functions)).not.toContain('note of its author')
  })

  it.each(['otc', 'opentool'] as const)('the client exposes them, over %s', async (protocol) => {
    const listed = await connect(server.url, { protocol }).list()
    const [, , , send] = listed
    expect(send).toMatchObject({
      name: 'Mail_Send',
      requirements: {
        authorization: [{ id: 'google', scopes: ['mail.read'] }],
        secrets: [{ id: 'SMS_KEY' }],
        userId: true,
      },
      facts: {
        ...{ catalogId: 'openwop:Mail.Send', source: 'node-pack', safetyTier: 'write' },
        ...{ approval: 'conditional', replay: 'non-deterministic', egress: 'safe-fetch' },
        ...{ scopes: [], credential: true },
      },
    })
  })

  it.each([
    ['otc', 'Clock.Read@1.0.0'],
    ['opentool', 'Clock_Read'],
  ] as const)('the client finds and calls a tool by any of its names, over %s', async (protocol, id) => {
    const client = connect(server.url, { protocol })
    const names = ['Clock.Read@1.0.0', 'Clock.Read', 'Clock.Read@1', 'Clock_Read', 'Clock_Read@1.0.0']
    for (const name of [...names, 'openwop:Clock.Read', 'openwop:Clock.Read@1']) {
      expect(await client.get(name), name).toMatchObject({ id })
      // A requested version is sent, also where the list has none.
      const toolId = protocol === 'opentool' && name.includes('@') ? name : id
      expect(await client.call(name), name).toMatchObject({ value: 'now', toolId })
    }
    expect(await client.get('openwop:Clock.Write')).toBeUndefined()
  })

  it('collet tools shows them, for a running server too', async () => {
    const services = { connect: async (...to: Parameters<typeof connect>) => connect(...to), fetch }
    const io = new FakeIo(services)
    expect([await io.run('tools', '--url', server.url), io.stderr]).toEqual([0, ''])
    const [head = '', ...rows] = io.stdout.trimEnd().split('\n')
    expect(head.split(/ {2,}/)).toEqual([...['TOOL', 'SOURCE', 'TIER', 'APPROVAL', 'NEEDS', 'DESCRIPTION']])
    expect(rows[3]?.split(/ {2,}/).slice(0, 5)).toEqual([
      ...['Mail.Send@2.0.0', 'node-pack'],
      ...['write', 'conditional', 'google, SMS_KEY, user id'],
    ])
    const narrow = new FakeIo(services)
    const stdout = { ...narrow.io.stdout, columns: 80, isTTY: true }
    expect(await new FakeIo(narrow.io.services, { stdout }).run('tools', '--url', server.url)).toBe(0)
    expect(narrow.stdout).toMatch(/^TOOL +TIER +APPROVAL +DESCRIPTION\n/)
  })
})
