import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { FAILURE_CLASSES } from '#protocols/otc/codec-client-failure'
import { CLIENT_DIALECTS } from '#protocols/otc/codec-client-wire'
import { type Play, sendJson, startFakeToolServer } from './fake-tool-server.ts'

const DOCUMENTED_URL = 'http://127.0.0.1:4100'
const BLOCK = /```ts\n(.*?)```/gs
const PRINTS = /console\.log\(.*\) \/\/ → (.*)$/gm

const guide = await readFile('docs/client.md', 'utf8')
const blocks = [...guide.matchAll(BLOCK)].map((match) => match[1] ?? '')

function tool(id: string, requirements: JsonObject = {}): JsonObject {
  const [base = '', version = ''] = id.split('@')
  return { id, name: base.replace('.', '_'), description: 'd', version, input_schema: {}, requirements }
}

const TOOLS = [
  tool('Calculator.Add@1.0.0'),
  tool('Doorbell.Ring@0.1.0'),
  tool('Gmail.GetEmails@1.2.0', {
    authorization: [{ id: 'google', oauth2: { scopes: ['mail'] } }],
    user_id: true,
  }),
]

const play: Play = (request, response) => {
  if (request.path === '/tools') return sendJson(response, 200, { $schema: 'urn:oxp:1.0', items: TOOLS })
  const call = isJsonObject(request.body.request) ? request.body.request : {}
  const input = isJsonObject(call.input) ? call.input : {}
  if (typeof input.b === 'string') {
    const problems = { b: 'Must be a number' }
    return sendJson(response, 422, {
      message: 'Some input parameters are invalid',
      parameter_errors: problems,
    })
  }
  return sendJson(response, 200, {
    result: { call_id: String(call.call_id), success: true, value: answerOf(call, input) },
  })
}

function answerOf(call: JsonObject, input: JsonObject): JsonValue {
  switch (call.tool_id) {
    case 'Calculator.Add@1.0.0':
      return Number(input.a) + Number(input.b)
    case 'Gmail.GetEmails@1.2.0':
      return [`Hello ${isJsonObject(call.context) ? call.context.user_id : 'nobody'}`]
    default:
      return null
  }
}

function shown(value: unknown): string {
  return (typeof value === 'string' ? value : JSON.stringify(value)).replaceAll('\n', '\\n')
}

describe('docs/client.md', () => {
  afterEach(() => vi.restoreAllMocks())

  it('names every failure class and dialect', () => {
    const missing = [
      ...FAILURE_CLASSES.map((name) => `\`${name}\``),
      ...CLIENT_DIALECTS.map((name) => `'${name}'`),
    ]
    expect(missing.filter((name) => !guide.includes(name))).toEqual([])
  })

  it('has examples', () => {
    expect(blocks.length).toBeGreaterThanOrEqual(4)
  })

  it.each(blocks.map((source, place) => [place + 1, source] as const))(
    'example %i runs as shown',
    async (_place, source) => {
      await using server = await startFakeToolServer(play)
      const folder = await mkdtemp(join(tmpdir(), 'collet-docs-'))
      try {
        const printed: string[] = []
        vi.spyOn(console, 'log').mockImplementation((value) => void printed.push(shown(value)))
        const file = join(folder, 'example.ts')
        const entry = pathToFileURL(join(process.cwd(), 'src/client/index.ts')).href
        await writeFile(file, source.replace('collet/client', entry).replaceAll(DOCUMENTED_URL, server.url))
        await import(pathToFileURL(file).href)
        expect(printed).toEqual([...source.matchAll(PRINTS)].map((match) => match[1]))
      } finally {
        await rm(folder, { recursive: true })
      }
    },
  )
})
