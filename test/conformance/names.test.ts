import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { requireTools } from '#kernel/tool/prepare-tools'
import { sampleTool } from '../contracts/samples.ts'
import { key, type PrincipalsServer, startPrincipalsServer } from '../server/principals-server.ts'
import { CALL_WAYS } from './call-ways.ts'
import { endTalks, startTalk, type Talk } from './mcp-talk.ts'

const add = (id: string, more: object = {}) => ({
  id,
  description: 'Adds.',
  input: z.object({ a: z.number().describe('One.'), b: z.number().describe('Other.') }),
  output: z.string(),
  policy: { safetyTier: 'pure', replay: 'deterministic' },
  run: ({ a, b }: { a: number; b: number }) => `${id} ${a + b}`,
  ...more,
})

const SPELLINGS: readonly [string, string][] = [
  ['Calculator.Add@1.0.0', 'Calculator.Add@1.0.0 3'],
  ['Calculator.Add@1', 'Calculator.Add@1.0.0 3'],
  ['Calculator.Add', 'Calculator.Add@1.1.0 3'],
  ['Calculator_Add', 'Calculator.Add@1.1.0 3'],
  ['Calculator_Add@1.0.0', 'Calculator.Add@1.0.0 3'],
  ['openwop:Calculator.Add', 'Calculator.Add@1.1.0 3'],
  ['openwop:Calculator.Add@1.0.0', 'Calculator.Add@1.0.0 3'],
  ['openwop:math/sum', 'Sum.Two@1.0.0 3'],
  ['plus-two', 'Sum.Two@1.0.0 3'],
]

describe('one name directory', () => {
  let talk: Talk
  beforeAll(async () => {
    talk = await startTalk([
      add('Calculator.Add@1.0.0'),
      add('Calculator.Add@1.1.0'),
      add('Sum.Two@1.0.0', { name: 'plus-two', catalogId: 'openwop:math/sum' }),
    ])
  })
  afterAll(endTalks)

  const ways = Object.entries(CALL_WAYS)
  const pairs = ways.flatMap(([way, call]) =>
    SPELLINGS.map(([tool, value]) => [way, tool, value, call] as const),
  )

  it.each(pairs)('%s accepts %s', async (_way, tool, value, call) => {
    expect(await call(talk.server.url, { tool, input: { a: 1, b: 2 } })).toMatchObject({ code: 'ok', value })
  })

  it.each(ways)('%s: an unknown name gets the most similar name as a suggestion', async (_way, call) => {
    for (const [tool, meant] of [
      ['Calculator.Ad', 'Calculator.Add'],
      ['Calculator_Ad', 'Calculator_Add'],
      ['openwop:Calculator.Ad', 'openwop:Calculator.Add'],
    ] as const) {
      const reported = await call(talk.server.url, { tool })
      expect(reported).toMatchObject({ code: 'tool_not_found' })
      expect(reported.message).toContain(`Did you mean '${meant}'?`)
    }
  })

  it.each(['Calculator.Add', 'Calculator_Add', 'openwop:Calculator.Add'])(
    'openwop shows the descriptor of %s',
    async (tool) => {
      const response = await fetch(`${talk.server.url}/v1/tools/${encodeURIComponent(tool)}`)
      expect(await response.json()).toMatchObject({ toolId: 'openwop:Calculator.Add' })
    },
  )
})

describe('names on the operator’s side', () => {
  let server: PrincipalsServer
  beforeAll(async () => {
    server = await startPrincipalsServer({
      auth: {
        apiKeys: [
          key('base', ['*'], { tools: ['Open.Say'] }),
          key('name', ['*'], { tools: ['Open_Say'] }),
          key('version', ['*'], { tools: ['Mail.Send@1.0.0'] }),
          key('admin', ['*'], { tools: ['openwop:Mail.Send', 'openwop:Open.Say'] }),
          key('closed', [], { tools: ['openwop:Mail.Send'] }),
        ],
        jwt: undefined,
      },
    })
  })
  afterAll(() => server.stop())

  const listed = async (credential: string): Promise<readonly string[]> =>
    (await server.ask('/tools', { key: credential })).json.tools.map(({ id }: { id: string }) => id)

  it('OWP-57: allow-lists accept any name, with or without a version', async () => {
    expect(await listed('k-base')).toEqual(['Open.Say@1.0.0'])
    expect(await listed('k-name')).toEqual(['Open.Say@1.0.0'])
    expect(await listed('k-version')).toEqual(['Mail.Send@1.0.0'])
  })

  it('OWP-57: the start lines report entries that grant nothing', () => {
    expect(server.warnings.filter((line) => line.includes('needs the scope'))).toEqual([
      'auth.apiKeys of "closed": openwop:Mail.Send needs the scope mail:send, which this key does not have: add it to `scopes`',
    ])
  })

  it('a new key can name its creator’s tools by any of their names, and no other tools', async () => {
    const make = (name: string, tools: readonly string[]) =>
      server.ask('/admin/keys', {
        method: 'POST',
        key: 'k-admin',
        body: { principal: name, tools, scopes: [] },
      })
    expect((await make('one', ['Mail_Send', 'Open.Say@1.0.0'])).status).toBe(201)
    expect((await make('two', ['Files.Read'])).status).toBe(403)
    expect(await make('three', ['Mail.Sent'])).toMatchObject({ status: 400 })
  })
})

describe('two tools with one name', () => {
  let server: PrincipalsServer
  beforeAll(async () => {
    server = await startPrincipalsServer({
      tools: requireTools([
        add('Calculator.Add@1.0.0', { name: 'Add' }),
        add('List.Add@1.0.0', { name: 'Add' }),
        add('Hidden.Add@1.0.0', { name: 'Add', policy: { ...add('').policy, scopes: ['hidden'] } }),
      ]),
      auth: { apiKeys: [key('one', [], { tools: ['List.Add'] }), key('two', [])], jwt: undefined },
    })
  })
  afterAll(() => server.stop())
  const ways = Object.entries(CALL_WAYS)
  const as = (credential: string) => ({ Authorization: `Bearer ${credential}` })

  it('OTC lists the names as they are written', async () => {
    const { tools } = (await server.ask('/tools', { key: 'k-two' })).json
    expect(tools.map(({ id, name }: { id: string; name: string }) => [id, name])).toEqual([
      ['Calculator.Add@1.0.0', 'Add'],
      ['List.Add@1.0.0', 'Add'],
    ])
  })

  it('OpenTool lists toolkit and name, also for a caller that sees one of them only', async () => {
    const names = async (credential: string) =>
      (await server.ask('/opentool/load', { key: credential })).json.functions.map(
        ({ name }: { name: string }) => name,
      )
    expect(await names('k-two')).toEqual(['Calculator_Add', 'List_Add'])
    expect(await names('k-one')).toEqual(['List_Add'])
  })

  it.each(ways)('%s calls each by toolkit and name', async (_way, call) => {
    for (const tool of ['Calculator', 'List']) {
      const asked = { tool: `${tool}_Add`, input: { a: 1, b: 2 }, headers: as('k-two') }
      expect(await call(server.url, asked)).toMatchObject({ code: 'ok', value: `${tool}.Add@1.0.0 3` })
    }
  })

  it.each(ways)(
    '%s: the shared name calls neither, and the error names the tools visible to the caller',
    async (_way, call) => {
      for (const [credential, hint] of [
        ['k-two', 'It could mean Calculator.Add or List.Add.'],
        ['k-one', "Did you mean 'List.Add'?"],
      ] as const) {
        const reported = await call(server.url, { tool: 'Add', headers: as(credential) })
        expect(reported).toMatchObject({ code: 'tool_not_found' })
        expect(reported.message).toContain(hint)
        expect(reported.message).not.toContain('Hidden')
      }
    },
  )

  it('is reported in the start lines', () => {
    expect(server.warnings).toContainEqual(
      '"Add" is the name of Calculator.Add, List.Add, Hidden.Add, so no tool can be called by it. MCP and OpenTool list Calculator_Add, List_Add, Hidden_Add.',
    )
  })
})

describe('names that two tools would share', () => {
  it('are refused at load where one is the call name of the other', () => {
    const shell = { ...add('Ops.Shell@1.0.0'), name: 'x-host-acme-shell' }
    const other = { ...add('Other.Shell@1.0.0'), catalogId: 'openwop:x' }
    expect(() => requireTools([shell, other])).not.toThrow()
    const clash = [{ ...shell, name: 'Other_Shell' }, other]
    expect(() => requireTools(clash)).toThrow(/already belongs/)
    expect(sampleTool('A.B@1.0.0', () => null).catalogId).toBe('openwop:A.B')
  })
})
