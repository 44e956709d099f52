import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { tool } from '#kernel/tool/define'
import { answerOf, ask, endTalks, startTalk, type Talk } from '../conformance/mcp-talk.ts'

const MODEL_BYTES = 32_000
const REVISIONS = ['2025-11-25', '2026-07-28'] as const

// biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
type Json = any

const ISSUES = Array.from({ length: 5_000 }, (_, id) => ({
  id,
  title: `Issue ${id}`,
  state: id % 100 === 0 ? 'open' : 'closed',
  body: `Text of issue ${id}. `.repeat(55),
}))
const BIG = { total: ISSUES.length, issues: ISSUES }
const IMAGE = Buffer.alloc(400_000, 7).toString('base64')
const AUDIO = Buffer.alloc(90_000, 9).toString('base64')

const define = (id: string, output: z.ZodType, run: () => unknown, policy: object = {}) =>
  tool({
    ...{ id: `${id}@1.0.0`, description: `Returns ${id}.`, input: z.object({}) },
    ...{ output, policy: { safetyTier: 'read', ...policy }, run },
  })

const ODD_NAMES = {
  ['k'.repeat(100_000)]: 'v'.repeat(100_000),
  'a\u0000b': '\u0000'.repeat(9),
  lone: '\ud800',
}
const ISSUE = z.object({ id: z.number(), title: z.string(), state: z.string(), body: z.string() })
const TOOLS = [
  define('Big.Declared', z.object({ total: z.number(), issues: z.array(ISSUE) }), () => BIG),
  define('Big.Any', z.any(), () => BIG),
  define('Big.List', z.array(ISSUE), () => ISSUES),
  define('Big.Text', z.string(), () => 'A line of text.\n'.repeat(20_000)),
  define('Big.Media', z.any(), () => ({
    content: [
      { type: 'text', text: JSON.stringify(BIG) },
      { type: 'image', data: IMAGE, mimeType: 'image/png' },
      { type: 'audio', data: AUDIO, mimeType: 'audio/wav' },
    ],
  })),
  define('Big.Projected', z.any(), () => BIG, { project: ['total', 'issues.id', 'issues.title'] }),
  define('Odd.Names', z.any(), () => ODD_NAMES),
  define(
    'Small.Table',
    z.any(),
    () => ({ rows: ISSUES.slice(0, 5).map(({ id, title }) => ({ id, title })) }),
    {
      modelFormat: 'toon',
    },
  ),
  define('Small.One', z.object({ ok: z.boolean() }), () => ({ ok: true })),
  define('Small.Number', z.number(), () => 1),
]

let talk: Talk
beforeAll(async () => {
  talk = await startTalk(TOOLS, { results: { modelBytes: MODEL_BYTES } })
})
afterAll(endTalks)

async function request(method: string, params: object = {}, meta: object = {}): Promise<Json> {
  const headers = 'uri' in params ? { 'Mcp-Name': String(params.uri) } : {}
  return await answerOf(await ask(talk.server.url, { method, params, meta }, { headers }))
}

async function call(name: string, args: object = {}, meta: object = {}): Promise<Json> {
  return (await request('tools/call', { name, arguments: args }, meta)).result
}

const textOf = (result: Json): string => result.content.map(({ text = '' }: Json) => text).join('\n')
const bytesFor = (result: Json): number => Buffer.byteLength(textOf(result))
const handleIn = (result: Json): string => /collet:\/\/calls\/[\w-]+/.exec(textOf(result))?.[0] ?? ''

/** Reads a whole value with the tool, part by part, as a model would. */
async function readAll(uri: string, args: object): Promise<{ text: string; bytes: number; reads: number }> {
  let [text, bytes, reads] = ['', 0, 0]
  for (let offset: number | undefined = 0; offset !== undefined && reads < 1_000; reads += 1) {
    const part = await call('read_result', { uri, offset, ...args })
    expect(part.isError).toBeUndefined()
    bytes = Math.max(bytes, bytesFor(part))
    text += part.content[1].text
    const next = /Read on with offset (\d+)/.exec(part.content[0].text)?.[1]
    offset = next === undefined ? undefined : Number(next)
  }
  return { text, bytes, reads }
}

describe('a result of 5 MB', () => {
  it('MCP-180, MCP-182: is shortened to the budget for the model, and every part of it can be read', async () => {
    const size = JSON.stringify(BIG).length
    expect(size).toBeGreaterThan(5_000_000)
    const shown = await call('Big_Any')
    expect(bytesFor(shown)).toBeLessThanOrEqual(MODEL_BYTES)
    expect(shown.structuredContent).toBeUndefined()
    expect(shown.isError).toBeUndefined()
    expect(textOf(shown)).toContain('/issues: ')
    expect(textOf(shown)).toMatch(
      /call read_result, for example with \{"uri":"collet:\/\/calls\/[^"]+","path":"\/issues","offset":\d+\}/,
    )
    const uri = handleIn(shown)
    expect(shown._meta['collet/shaped']).toEqual({ uri })
    const read = await readAll(uri, { format: 'text' })
    expect(JSON.parse(read.text)).toEqual(BIG)
    expect(read.bytes).toBeLessThanOrEqual(MODEL_BYTES)
    process.stdout.write(
      `a value of ${size} bytes: the model gets ${bytesFor(shown)} bytes at first; ${read.reads} reads of at most ${read.bytes} bytes return 100 % of it\n`,
    )
  })

  it('MCP-182: is read by path, range, filter and members', async () => {
    const uri = handleIn(await call('Big_Any'))
    const item = await call('read_result', { uri, path: 'issues[4999].title' })
    expect(item.content[1].text).toBe('Issue 4999')
    const open = await call('read_result', {
      ...{ uri, path: '/issues', select: ['id', 'title'], limit: 3, offset: 1, format: 'toon' },
      where: { member: 'state', equals: 'open' },
    })
    expect(open.content[0].text).toContain('items 1 to 3 of 50. Read on with offset 4.')
    expect(open.content[1].text).toBe('[3]{id,title}:\n  100,Issue 100\n  200,Issue 200\n  300,Issue 300')
    const wrong = await call('read_result', { uri, path: '/nothing' })
    expect(wrong).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('total, issues') }],
    })
    const gone = await call('read_result', { uri: 'collet://calls/no-such-call' })
    expect(gone.isError).toBe(true)
  })

  it('MCP-182: refuses parameters of the wrong kind, so that no model reads the same part again and again', async () => {
    const uri = handleIn(await call('Big_Any'))
    for (const [wrong, message] of [
      [{ uri, path: '/issues', offset: 'two' }, '"offset" must be'],
      [{ uri, path: '/issues', limit: 1.5 }, '"limit" must be'],
      [{ uri, path: 7 }, '"path" must be'],
      [{ uri, path: '/issues', where: 'state=open' }, '"where" must be'],
      [{ uri, path: '/issues', where: { member: 'state' } }, '"where" must be'],
      [{ uri, select: 'id' }, '"select" must be'],
      [{ uri, format: 3 }, '"format" must be'],
      [{}, '"uri" must be'],
      [{ uri: 7 }, '"uri" must be'],
    ] as const) {
      const { isError, content } = await call('read_result', wrong)
      expect([isError, content[0].text]).toEqual([true, expect.stringContaining(message)])
    }
    const written = await call('read_result', { uri, path: '/issues', offset: '7', limit: '1', where: null })
    expect(written.content[0].text).toContain('items 7 to 7 of 5000')
  })

  it('MCP-182: a value whose members have names that are too long to show can be read as text', async () => {
    const shown = await call('Odd_Names')
    expect(bytesFor(shown)).toBeLessThanOrEqual(MODEL_BYTES)
    const example = JSON.parse(/for example with (\{.*\})\./.exec(textOf(shown))?.[1] ?? '')
    const { text } = await readAll(example.uri, { format: example.format })
    expect(JSON.parse(text)).toEqual(ODD_NAMES)
  })

  it('MCP-183: is a resource, whose template is listed', async () => {
    const uri = handleIn(await call('Big_Any'))
    const { result } = await request('resources/read', { uri: `${uri}?path=/issues/7/title` })
    expect(result.contents[0]).toMatchObject({ mimeType: 'text/plain', text: 'Issue 7' })
    const whole = await request('resources/read', { uri })
    expect(Buffer.byteLength(whole.result.contents[0].text)).toBeLessThanOrEqual(MODEL_BYTES)
    const { result: templates } = await request('resources/templates/list')
    expect(templates.resourceTemplates[0].uriTemplate).toMatch(/^collet:\/\/calls\/\{id\}\{\?path/)
    const other = await request('resources/read', { uri: 'collet://calls/unknown' })
    expect(other.error.message).toContain('Unknown resource')
  })

  it('MCP-181: is sent whole to a caller that asks for all of it', async () => {
    const whole = await call('Big_Any', {}, { 'collet/modelBytes': 0 })
    expect(whole.structuredContent).toEqual(BIG)
  })

  it('MCP-182: is read on another server of the same store, over HTTP too', async () => {
    const id = handleIn(await call('Big_Any')).replace('collet://calls/', '')
    const { url } = await talk.another()
    const params = { name: 'read_result', arguments: { uri: id, path: 'issues[3].title' } }
    const { result } = await answerOf(await ask(url, { method: 'tools/call', params }))
    expect(result.content[1].text).toBe('Issue 3')
    const part: Json = await (await fetch(`${url}/calls/${id}/result?path=/issues&limit=1&select=id`)).json()
    expect(part).toMatchObject({ value: [{ id: 0 }], count: 1, total: 5_000, next_offset: 1 })
    const unknown = await fetch(`${url}/calls/unknown/result`)
    expect([unknown.status, unknown.headers.get('collet-error-code')]).toEqual([404, 'call_not_found'])
  })

  it('is complete for programs', async () => {
    const { content } = await call('Big_Any')
    const id = /collet:\/\/calls\/([\w-]+)/.exec(content[0].text)?.[1]
    const view: Json = await (await fetch(`${talk.server.url}/calls/${id}`)).json()
    expect(view.result.value).toEqual(BIG)
  })
})

describe('a declared output', () => {
  it.each(REVISIONS)(
    'MCP-180: is shortened to a valid value that contains a note about it, %s',
    async (revision) => {
      const client = new Client({ name: 'test', version: '1' })
      const transport = new StreamableHTTPClientTransport(new URL(`${talk.server.url}/mcp`))
      await client.connect(transport)
      if (revision === '2025-11-25') {
        // The client of the SDK checks the value against the listed schema.
        await client.listTools()
        const result: Json = await client.callTool({ name: 'Big_Declared', arguments: {} })
        expect(result.structuredContent['collet/shaped']).toContain('collet://calls/')
        expect(result.structuredContent.issues.length).toBeLessThan(100)
        expect(JSON.stringify(result.structuredContent).length).toBeLessThanOrEqual(MODEL_BYTES)
        const list: Json = await client.callTool({ name: 'Big_List', arguments: {} })
        expect(bytesFor(list)).toBeLessThanOrEqual(MODEL_BYTES)
      } else {
        const result = await call('Big_Declared')
        expect(result.structuredContent['collet/shaped']).toContain('collet://calls/')
        // An array has no place for a note, so it is not shortened.
        expect((await call('Big_List')).structuredContent).toEqual(ISSUES)
      }
      await client.close()
    },
  )

  it('keeps the beginning of a string, which ends with a note that it is shortened', async () => {
    const { structuredContent, content } = await call('Big_Text')
    expect(structuredContent).toMatch(/^A line of text\..*… \[\d+ of 320000 characters\]$/s)
    expect(Buffer.byteLength(content[1].text)).toBeLessThanOrEqual(MODEL_BYTES)
  })
})

describe('images and files', () => {
  it('MCP-180: stay images, or become links if they exceed the budget', async () => {
    const result = await call('Big_Media')
    const [note, text, image, audio] = result.content
    expect(note.text).toContain('/0/text/issues')
    expect(JSON.parse(text.text).issues[0].id).toBe(0)
    expect(image).toMatchObject({ type: 'image', data: IMAGE })
    expect(audio).toMatchObject({ type: 'resource_link', mimeType: 'audio/wav', size: 90_000 })
    expect(bytesFor(result)).toBeLessThanOrEqual(MODEL_BYTES)
    const read = await request('resources/read', { uri: audio.uri })
    expect(read.result.contents[0]).toEqual({ uri: audio.uri, mimeType: 'audio/wav', blob: AUDIO })
    const shown = await call('read_result', { uri: `${handleIn(result)}/content/1` })
    expect(shown.content[0]).toMatchObject({ type: 'image', data: IMAGE })
    const issue = await call('read_result', {
      uri: `${handleIn(result)}/content`,
      path: '/0/text/issues/9/title',
    })
    expect(issue.content[1].text).toBe('Issue 9')
  })
})

describe('policies', () => {
  it('select members for the model, and name the others', async () => {
    const result = await call('Big_Projected', {}, { 'collet/modelBytes': 0 })
    expect(result.content[0].text).toContain('leaves out members: issues.state, issues.body.')
    expect(Object.keys(result.structuredContent.issues[0])).toEqual(['id', 'title'])
    const body = await call('read_result', { uri: handleIn(result), path: '/issues/1/state' })
    expect(body.content[1].text).toBe('closed')
  })

  it('write lists as TOON', async () => {
    const { content } = await call('Small_Table')
    expect(content).toEqual([
      { type: 'text', text: expect.stringMatching(/^rows\[5\]\{id,title\}:\n {2}0,Issue 0\n/) },
    ])
  })
})

describe('a small result', () => {
  it('has the same bytes with and without a budget', async () => {
    const off = await startTalk(TOOLS.slice(-2))
    const members = ({ content, structuredContent }: Json): string =>
      JSON.stringify({ content, structuredContent })
    const params = { name: 'Small_One', arguments: {} }
    const other = await answerOf(await ask(off.server.url, { method: 'tools/call', params }))
    expect(members(await call('Small_One'))).toBe(members(other.result))
    const list = await answerOf(await ask(off.server.url, { method: 'tools/list' }))
    expect(list.result.tools.map(({ name }: Json) => name)).not.toContain('read_result')
  })

  it('MCP-182: the tool that reads results is listed in order, and only where a result can be long', async () => {
    const { result } = await request('tools/list')
    const names = result.tools.map(({ name }: Json) => name)
    expect(names).toContain('read_result')
    expect(names).toEqual(names.toSorted())
    const numbers = await startTalk(TOOLS.slice(-1), { results: { modelBytes: MODEL_BYTES } })
    const list = await answerOf(await ask(numbers.server.url, { method: 'tools/list' }))
    expect(list.result.tools).toHaveLength(1)
  })
})

describe('a compact list', () => {
  it('MCP-184: shortens descriptions and schemas, and names what it left out', async () => {
    const long = tool({
      id: 'Long.Tool@1.0.0',
      description: `Does one thing. ${'It has many details. '.repeat(30)}`,
      input: z.object({ a: z.string().describe(`The first. ${'More about it. '.repeat(20)}`) }),
      output: z.object({ b: z.string() }),
      policy: { safetyTier: 'read' },
      run: () => ({ b: 'x' }),
    })
    const base = talk.settings.mcp
    const compact = await startTalk([long], { mcp: { ...base, compact: true } })
    const { result } = await answerOf(await ask(compact.server.url, { method: 'tools/list' }))
    const [listed] = result.tools
    expect(listed.outputSchema).toBeUndefined()
    expect(listed.description).toMatch(
      /^Does one thing\..* \[Left out: a part of this text, the output schema, parts of parameter descriptions\]$/,
    )
    expect(listed.description.length).toBeLessThan(330)
    expect(listed.inputSchema.properties.a.description).toMatch(/^The first\./)
    expect(listed.inputSchema.required).toEqual(['a'])
  })
})
