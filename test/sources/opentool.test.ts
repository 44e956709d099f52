import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createGuardedFetch } from '#egress/guarded-fetch'
import { Secret } from '#kernel/base/secret'
import { createOpenToolSource } from '#sources/opentool/index'
import { OPENTOOL_OPTIONS } from '#sources/opentool/options'
import { sampleTool } from '../contracts/samples.ts'
import { invocationOf, servicesOf, toolIn } from './sample-invocation.ts'
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
  it('offers its functions as a connector, and returns the value under its name', async () => {
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
      binding: { url: `${url}/opentool`, function: 'Say_Word', returnName: 'result', returnType: 'string' },
    })
    expect(await source.invoke(invocationOf(discovery, 'Say_Word', { word: 'hi' }))).toBe('hi')
    // OTS-82: any value is written as an object without members.
    expect(toolIn(discovery, 'Say_Any').outputSchema).not.toHaveProperty('type')
    expect(await source.invoke(invocationOf(discovery, 'Say_Any'))).toEqual([1, 'two'])
    // OTS-10: no return value.
    expect(toolIn(discovery, 'Say_Nothing').outputSchema).toBeNull()
    expect(await source.invoke(invocationOf(discovery, 'Say_Nothing'))).toBeNull()
  })

  it('rule 27: an effect runs once there, however often it is requested', async () => {
    let runs = 0
    const count = sampleTool('Bank.Pay@1.0.0', () => ++runs, { outputSchema: { type: 'integer' } })
    const { url } = await startUpstream({ tools: [count] })
    const source = open(url)
    const discovery = await source.discover(NEVER)
    const pay = (effectKey: string) => source.invoke(invocationOf(discovery, 'Bank_Pay', {}, { effectKey }))
    expect([await pay('first'), await pay('first'), await pay('second')]).toEqual([1, 1, 2])
  })

  it('OTS-47: sends its key as a bearer token, and reports when it is not accepted', async () => {
    const key = { id: 'us', key: new Secret('k-us'), tenant: 'default', scopes: [] }
    const { url } = await startUpstream({
      tools: [sampleTool('A.B@1.0.0', () => 'x')],
      auth: { apiKeys: [key], jwt: undefined },
    })
    await expect(open(url).discover(NEVER)).rejects.toMatchObject({ code: 'upstream_failed' })
    const source = open(url, { apiKey: 'k-us' })
    const discovery = await source.discover(NEVER)
    expect(await source.invoke(invocationOf(discovery, 'A_B'))).toBe('x')
    const wrongKey = open(url, { apiKey: 'k-stranger' })
    await expect(wrongKey.invoke(invocationOf(discovery, 'A_B'))).rejects.toMatchObject({
      code: 'upstream_failed',
      message: `${url} does not accept the credentials of this server; ask its operator.`,
    })
    expect(wrongKey.health().state).toBe('degraded')
  })

  it('passes on missing requirements and errors of the other server', async () => {
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

  it('requests the document only if it has changed', async () => {
    const { url } = await startUpstream({ tools: [sampleTool('A.B@1.0.0', () => 'x')] })
    const tags: (string | null)[] = []
    const services = servicesTo(url, (_, init) => tags.push(new Headers(init.headers).get('if-none-match')))
    const source = open(url, {}, services)
    const first = await source.discover(NEVER)
    expect(await source.discover(NEVER)).toEqual(first)
    expect(tags[0]).toBeNull()
  })
})

/** A third-party OpenTool server, which returns these answers whatever its document says. */
async function startForeign(results: Readonly<Record<string, unknown>>, document: object = {}) {
  const asked: string[] = []
  const server = createServer(async (request, response) => {
    asked.push(`${request.method} ${request.url}`)
    response.setHeader('content-type', 'application/json')
    if (request.url !== '/opentool/call') return response.end(JSON.stringify(document))
    const { method, id } = JSON.parse(await text(request))
    response.end(JSON.stringify({ jsonrpc: '2.0', result: results[method], id }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const address = server.address()
  if (typeof address !== 'object' || address === null) throw new Error('no address')
  return { url: `http://127.0.0.1:${address.port}`, asked }
}

function documentOf(functions: Readonly<Record<string, object | undefined>>, server?: string): object {
  return {
    opentool: '1.1.0',
    info: { title: 'Store', version: '1.0.0' },
    ...(server === undefined ? {} : { server: { url: server } }),
    functions: Object.entries(functions).map(([name, returned]) => ({
      ...{ name, description: `Does ${name}.`, parameters: [] },
      ...(returned === undefined ? {} : { return: returned }),
    })),
  }
}

describe('OTS-38: answers of servers that deviate from their document', () => {
  const INTEGER = { name: 'Count', schema: { type: 'integer' } }
  const RECORD = { name: 'Found', schema: { type: 'object', properties: { id: { type: 'integer' } } } }

  it.each<[string, object | undefined, unknown, unknown]>([
    ['the name as written', INTEGER, { Count: 3 }, 3],
    ['the name in another case', INTEGER, { count: 3 }, 3],
    ['another name', INTEGER, { total: 3 }, 3],
    ['an object under another name of several', INTEGER, { a: 1, b: 2 }, { a: 1, b: 2 }],
    ['an object in another case', RECORD, { found: { id: 1 } }, { id: 1 }],
    ['an object that is not wrapped', RECORD, { id: 1 }, { id: 1 }],
    ['an answer where none was declared', undefined, { done: true, id: 7 }, { done: true, id: 7 }],
    ['nothing', undefined, {}, null],
  ])('%s', async (_title, returned, result, value) => {
    const { url } = await startForeign({ act: result }, documentOf({ act: returned }))
    const source = open(url)
    const discovery = await source.discover(NEVER)
    expect(await source.invoke(invocationOf(discovery, 'act'))).toEqual(value)
  })

  it('OTS-40: a failure that is sent as a result is a failure', async () => {
    const failure = { code: 405, message: 'Function Not Supported: act' }
    const { url } = await startForeign({ act: failure }, documentOf({ act: INTEGER }))
    const source = open(url)
    const discovery = await source.discover(NEVER)
    await expect(source.invoke(invocationOf(discovery, 'act'))).rejects.toMatchObject({
      code: 'tool_failed',
      message: 'Function Not Supported: act',
      canRetry: false,
    })
  })

  it('are accepted unchanged if the options allow it', async () => {
    const { url } = await startForeign({ act: { Count: 'three' } }, documentOf({ act: INTEGER }))
    const discovery = await open(url, { output: 'any' }).discover(NEVER)
    expect(toolIn(discovery, 'act').outputSchema).toEqual({})
  })
})

describe('an OpenTool server that does not serve its document', () => {
  const RETURN = { name: 'sum', schema: { type: 'number' } }

  it.each(['a file', 'an address'])('is described by %s, which names it', async (kind) => {
    const { url, asked } = await startForeign({ add: { sum: 3 } })
    const file = join(mkdtempSync(join(tmpdir(), 'collet-opentool-')), 'opentool.json')
    onTestFinished(() => rmSync(dirname(file), { recursive: true }))
    const described = documentOf({ add: RETURN }, url)
    writeFileSync(file, JSON.stringify(described))
    const published = await startForeign({}, described)
    const document = kind === 'a file' ? file : `${published.url}/opentool.json`
    const guarded = createGuardedFetch({ allow: [new URL(url).host, new URL(published.url).host] })
    onTestFinished(() => guarded.close())
    const options = OPENTOOL_OPTIONS.parse({ type: 'opentool', document })
    const source = createOpenToolSource('Up', options, servicesOf({ fetch: guarded }))
    const discovery = await source.discover(NEVER)
    expect(discovery.identity).toEqual({ origin: url, url: `${url}/opentool` })
    expect(await source.invoke(invocationOf(discovery, 'add'))).toBe(3)
    expect(asked).toEqual(['POST /opentool/call'])
  })

  it('rule 32: is called at `url`, and never at the address of a later document', async () => {
    const { url } = await startForeign({ add: { sum: 3 } })
    const folder = mkdtempSync(join(tmpdir(), 'collet-opentool-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    writeFileSync(
      join(folder, 'o.json'),
      JSON.stringify(documentOf({ add: RETURN }, 'https://elsewhere.example')),
    )
    const options = OPENTOOL_OPTIONS.parse({ type: 'opentool', document: 'o.json', url })
    const source = createOpenToolSource('Up', options, { ...servicesTo(url), folder })
    const discovery = await source.discover(NEVER)
    expect(await source.invoke(invocationOf(discovery, 'add'))).toBe(3)
  })

  it('reports missing options', async () => {
    const { url } = await startForeign({}, {})
    await expect(open(url).discover(NEVER)).rejects.toThrow('name it with `document`')
    const options = OPENTOOL_OPTIONS.parse({ type: 'opentool', document: 'not-there.json' })
    const source = createOpenToolSource('Up', options, servicesOf())
    await expect(source.discover(NEVER)).rejects.toThrow('not-there.json cannot be read')
    const problems = (written: object): string =>
      OPENTOOL_OPTIONS.safeParse({ type: 'opentool', ...written }).error?.issues[0]?.message ?? ''
    expect(problems({})).toContain('expected `url`')
    expect(problems({ document: 'a.json', apiKey: 'k' })).toContain('a credential needs `url`')
  })
})
