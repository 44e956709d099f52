import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it, onTestFinished } from 'vitest'
import { isToolError } from '#kernel/base/errors'
import { readList } from '#sources/common/answered-json'
import { createOpenToolSource } from '#sources/opentool/index'
import { OPENTOOL_OPTIONS } from '#sources/opentool/options'
import { createOtcSource } from '#sources/otc/index'
import { OTC_OPTIONS } from '#sources/otc/options'
import { openSource, SOURCE_OPTIONS } from '#sources/source-types'
import { longestTurn, MEASURED, RETRIES } from '../longest-turn.ts'
import { invocationOf } from './sample-invocation.ts'
import { servicesTo } from './upstream.ts'

const MIB = 1_048_576
/** Limits in processor time of the serving thread: reading a list, and reading an answer of a call. */
const [MAX_MS, MAX_CALL_MS] = [50, 100]
const NEVER = new AbortController().signal

/** Sends these answers one after the other, then repeats the last one. */
async function answering(...bodies: Buffer[]): Promise<string> {
  const server = createServer((request, response) => {
    request.resume()
    const body = bodies.length > 1 ? bodies.shift() : bodies[0]
    response.writeHead(200, { 'content-type': 'application/json' }).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
}

const BRACKETS = `[${'[],'.repeat(3 * MIB)}[]]`
const DEEP = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
const SHAPES = `[${Array.from({ length: 120_000 }, (_, at) => `{"k${at}${'x'.repeat(40)}":${at}}`).join(',')}]`
const otcTools = (n: number) =>
  Array.from({ length: n }, (_, at) => ({
    id: `A.T${at}@1.0.0`,
    name: `A_T${at}`,
    description: 'x'.repeat(200),
    version: '1.0.0',
    input_schema: {
      parameters: {
        type: 'object',
        properties: Object.fromEntries(
          Array.from({ length: 5 }, (_u, k) => [`p${k}`, { type: 'string', description: 'y'.repeat(80) }]),
        ),
      },
    },
    output_schema: { type: 'object' },
  }))
const functions = (n: number) =>
  Array.from({ length: n }, (_, at) => ({
    name: `t${at}`,
    description: 'x'.repeat(500),
    parameters: Array.from({ length: 5 }, (_u, k) => ({
      name: `p${k}`,
      schema: { type: 'string', description: 'y'.repeat(80) },
      required: true,
    })),
  }))
const HEAD = '"opentool":"1.0.0","info":{"title":"t","version":"1"}'

/** The longest turn while a source of this type reads the answer, and the result. */
async function reading(type: 'otc' | 'opentool', text: string) {
  const url = await answering(Buffer.from(text))
  const source =
    type === 'otc'
      ? createOtcSource('Up', OTC_OPTIONS.parse({ type, url }), servicesTo(url))
      : createOpenToolSource('Up', OPENTOOL_OPTIONS.parse({ type, url }), servicesTo(url))
  onTestFinished(() => source.close())
  let found: unknown
  const stallMs = await longestTurn(async () => {
    found = await source.discover(NEVER).then(
      ({ tools }) => tools.length,
      (error: unknown) => (isToolError(error) ? error.code : error),
    )
  })
  return { stallMs, found }
}

describe('a server whose list is slow to read', RETRIES, () => {
  it.each([
    ['brackets', BRACKETS],
    ['levels', DEEP],
    ['shapes', SHAPES],
    ['half a list', `[${JSON.stringify(otcTools(2_000)).slice(1, -10)}`],
  ])('is refused in time: %s', async (_what, value) => {
    const otc = await reading('otc', `{"items":[],"more":${value}}`)
    expect(otc.found).toBe('upstream_failed')
    expect(otc.stallMs, MEASURED).toBeLessThan(MAX_MS)
    const opentool = await reading('opentool', `{${HEAD},"functions":[],"more":${value}}`)
    expect(opentool.found).toBe('upstream_failed')
    expect(opentool.stallMs, MEASURED).toBeLessThan(MAX_MS)
  })

  it('but is ordinary is read in pieces', async () => {
    const otc = await reading('otc', JSON.stringify({ items: otcTools(8_000) }))
    expect(otc.found).toBe(8_000)
    expect(otc.stallMs, MEASURED).toBeLessThan(MAX_MS)
    const opentool = await reading('opentool', `{${HEAD},"functions":${JSON.stringify(functions(800))}}`)
    expect(opentool.found).toBe(800)
    expect(opentool.stallMs, MEASURED).toBeLessThan(MAX_MS)
  })
})

describe('an answer of a call that is slow to read', RETRIES, () => {
  it.each([
    ['otc', 'brackets', BRACKETS],
    ['otc', 'levels', DEEP],
    ['opentool', 'brackets', BRACKETS],
    ['opentool', 'levels', DEEP],
    ['openapi', 'brackets', BRACKETS],
    ['openapi', 'levels', DEEP],
  ])('is refused in time by a source of type %s: %s', async (type, _what, value) => {
    const texts: Record<string, string> = {
      otc: JSON.stringify({ items: otcTools(1) }),
      opentool: `{${HEAD},"functions":${JSON.stringify(functions(1))}}`,
    }
    const answers = [texts[type] ?? '{}', `{"result":${value}}`].map((text) => Buffer.from(text))
    const url = await answering(...answers)
    const folder = mkdtempSync(join(tmpdir(), 'collet-answers-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const paths = { '/t': { post: { operationId: 't', responses: {} } } }
    writeFileSync(
      join(folder, 'api.json'),
      JSON.stringify({ openapi: '3.0.3', info: { title: 't', version: '1' }, servers: [{ url }], paths }),
    )
    const options = type === 'openapi' ? { type, file: 'api.json' } : { type, url }
    const source = await openSource('Up', SOURCE_OPTIONS.parse(options), { ...servicesTo(url), folder })
    onTestFinished(() => source.close())
    const discovery = await source.discover(NEVER)
    if (type === 'openapi') await fetch(url)
    const name = discovery.tools[0]?.nativeName ?? ''
    const stallMs = await longestTurn(async () => {
      await expect(
        source.invoke(invocationOf(discovery, name, { p0: 'a', p1: 'a', p2: 'a', p3: 'a', p4: 'a' })),
      ).rejects.toMatchObject({
        code: expect.stringMatching(/^(upstream_failed|result_too_large)$/),
      })
    })
    expect(stallMs, MEASURED).toBeLessThan(MAX_CALL_MS)
  })
})

describe('a list read in pieces', () => {
  const space = fc.constantFrom('', ' ', '\n', '\t \r\n')

  it('equals the result of JSON.parse', async () => {
    await fc.assert(
      fc.asyncProperty(fc.json({ maxDepth: 5 }), space, async (text, around) => {
        const padded = around + JSON.stringify(JSON.parse(text), undefined, around) + around
        expect(await readList(padded)).toEqual(JSON.parse(padded))
      }),
    )
  })

  it('is refused where JSON.parse throws', async () => {
    const bits = fc.constantFrom(
      '[',
      ']',
      '{',
      '}',
      ',',
      ':',
      '"',
      '"a"',
      '\\',
      '1',
      '-',
      'true',
      ' ',
      '"__proto__"',
    )
    await fc.assert(
      fc.asyncProperty(fc.array(bits, { maxLength: 12 }), async (parts) => {
        const text = parts.join('')
        let expected: unknown
        try {
          expected = JSON.parse(text)
        } catch {
          expected = undefined
        }
        expect(await readList(text)).toEqual(expected)
      }),
      { numRuns: 5_000 },
    )
  })
})
