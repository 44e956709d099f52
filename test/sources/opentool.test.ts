import { describe, expect, it } from 'vitest'
import { Secret } from '#core/secret'
import { createOpenToolSource } from '#sources/opentool/index'
import { OPENTOOL_OPTIONS } from '#sources/opentool/options'
import { sampleTool } from '#testing/sample-tool'
import { invocationOf, toolIn } from './sample-invocation.ts'
import { servicesTo, startUpstream } from './upstream.ts'

const NEVER = new AbortController().signal

function open(url: string, options: object = {}, services = servicesTo(url)) {
  return createOpenToolSource('Up', OPENTOOL_OPTIONS.parse({ type: 'opentool', url, ...options }), services)
}

const WORD = {
  type: 'object',
  properties: { word: { type: 'string', description: 'What to say.' } },
  required: ['word'],
} as const

describe('an OpenTool server as a source', () => {
  it('offers its functions as a connector, and gives the value under its name', async () => {
    const { url } = await startUpstream({
      tools: [
        sampleTool('Say.Word@1.0.0', (input) => Object(input).word, {
          description: 'Says a word.',
          inputSchema: WORD,
          outputSchema: { type: 'string' },
        }),
        sampleTool('Say.Any@1.0.0', () => [1, 'two'], { outputSchema: {} }),
        sampleTool('Say.Nothing@1.0.0', () => undefined, { outputSchema: null }),
      ],
    })
    const source = open(url)
    const discovery = await source.discover(NEVER)
    expect([source.type, source.kind]).toEqual(['opentool', 'connector'])
    expect(discovery.identity).toEqual({ origin: url, url: `${url}/opentool` })
    expect(toolIn(discovery, 'Say_Word')).toMatchObject({
      description: expect.stringContaining('Says a word.'),
      inputSchema: WORD,
      outputSchema: { type: 'string' },
      policy: { safetyTier: 'write', egress: 'safe-fetch' },
      binding: { url: `${url}/opentool`, function: 'Say_Word', returnName: 'result' },
    })
    expect(await source.invoke(invocationOf(discovery, 'Say_Word', { word: 'hi' }))).toBe('hi')
    // OTS-82: any value is written as an object without members.
    expect(toolIn(discovery, 'Say_Any').outputSchema).not.toHaveProperty('type')
    expect(await source.invoke(invocationOf(discovery, 'Say_Any'))).toEqual([1, 'two'])
    expect(toolIn(discovery, 'Say_Nothing').outputSchema).toBeNull()
    expect(await source.invoke(invocationOf(discovery, 'Say_Nothing'))).toBeNull()
  })

  it('rule 27: the same effect runs once there, however often it is asked for', async () => {
    let runs = 0
    const count = sampleTool('Bank.Pay@1.0.0', () => ++runs, { outputSchema: { type: 'integer' } })
    const { url } = await startUpstream({ tools: [count] })
    const source = open(url)
    const discovery = await source.discover(NEVER)
    const pay = (effectKey: string) => source.invoke(invocationOf(discovery, 'Bank_Pay', {}, { effectKey }))
    expect([await pay('first'), await pay('first'), await pay('second')]).toEqual([1, 1, 2])
  })

  it('OTS-47: sends its key as a bearer, and says when it is not accepted', async () => {
    const key = { id: 'us', key: new Secret('k-us'), tenant: 'default', scopes: [] }
    const { url } = await startUpstream({
      tools: [sampleTool('A.B@1.0.0', () => 'x')],
      auth: { apiKeys: [key], jwt: undefined },
    })
    await expect(open(url).discover(NEVER)).rejects.toMatchObject({ code: 'upstream_failed' })
    const source = open(url, { apiKey: 'k-us' })
    const discovery = await source.discover(NEVER)
    expect(await source.invoke(invocationOf(discovery, 'A_B'))).toBe('x')
    const stranger = open(url, { apiKey: 'k-stranger' })
    await expect(stranger.invoke(invocationOf(discovery, 'A_B'))).rejects.toMatchObject({
      code: 'upstream_failed',
      message: `${url} does not accept the credentials of this server; ask its operator.`,
    })
    expect(stranger.health().state).toBe('degraded')
  })

  it('passes on what the other server lacks, and what its tools say', async () => {
    const { url } = await startUpstream({
      tools: [
        sampleTool('Bank.Pay@1.0.0', () => 'paid', { policy: { approval: 'always' } }),
        sampleTool('Mail.Send@1.0.0', () => 'sent', { requirements: { secrets: [{ id: 'MAIL_KEY' }] } }),
        sampleTool('A.Bad@1.0.0', () => {
          throw new Error('boom')
        }),
      ],
    })
    const source = open(url)
    const discovery = await source.discover(NEVER)
    await expect(source.invoke(invocationOf(discovery, 'Bank_Pay'))).rejects.toMatchObject({
      canRetry: true,
      message: expect.stringContaining(`${url}/approvals/`),
    })
    await expect(
      source.invoke(invocationOf(discovery, 'Mail_Send', {}, { effectKey: 'two' })),
    ).rejects.toThrow('MAIL_KEY')
    await expect(
      source.invoke(invocationOf(discovery, 'A_Bad', {}, { effectKey: 'three' })),
    ).rejects.toMatchObject({
      code: 'tool_failed',
      canRetry: false,
    })
  })

  it('rule 9: a server that cannot be reached has not run anything', async () => {
    const server = await startUpstream({ tools: [sampleTool('A.B@1.0.0', () => 'x')] })
    const source = open(server.url)
    const discovery = await source.discover(NEVER)
    await server.close()
    await expect(source.invoke(invocationOf(discovery, 'A_B'))).rejects.toMatchObject({
      code: 'upstream_failed',
      canRetry: true,
    })
    await expect(source.discover(NEVER)).rejects.toMatchObject({ code: 'upstream_failed' })
    expect(source.health().state).toBe('down')
  }, 20_000)

  it('asks only whether the document has changed', async () => {
    const { url } = await startUpstream({ tools: [sampleTool('A.B@1.0.0', () => 'x')] })
    const tags: (string | null)[] = []
    const services = servicesTo(url, (_, init) => tags.push(new Headers(init.headers).get('if-none-match')))
    const source = open(url, {}, services)
    const first = await source.discover(NEVER)
    expect(await source.discover(NEVER)).toEqual(first)
    expect(tags[0]).toBeNull()
  })
})
