import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { detectFile } from '#server/import/detect'
import { probeMcp, probeOpenTool, probeOtc, readHead } from '#server/import/probe'
import { openSource, SOURCE_OPTIONS } from '#sources/source-types'
import { longestTurn } from '../longest-turn.ts'
import { servicesTo } from '../sources/upstream.ts'

const MIB = 1_048_576
/** Limit of processor time of the serving thread. */
const MAX_TURN_MS = 100

/** Valid YAML that takes seconds for each half megabyte. */
const slowYaml = (bytes: number) => `openapi: 3.0.0\nx: [${'[1],'.repeat(bytes / 4)}[1]]\n`

function fileOf(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'collet-probe-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'doc.yaml')
  writeFileSync(file, text)
  return file
}

describe('probing a document that is slow to parse', () => {
  it('does not block the serving thread with 2 MB, and ends when the client disconnects', async () => {
    const text = slowYaml(2 * MIB)
    const turn = await longestTurn(() =>
      expect(readHead(text, AbortSignal.timeout(1_500))).rejects.toMatchObject({ name: 'TimeoutError' }),
    )
    expect(turn).toBeLessThan(MAX_TURN_MS)
  })

  it('does not block the serving thread with a file either, and detects its kind', async () => {
    const file = fileOf(slowYaml(MIB / 8))
    let what: string | undefined
    const turn = await longestTurn(async () => {
      what = (await detectFile(file)).found?.what
    })
    expect([what, turn < MAX_TURN_MS]).toEqual(['an OpenAPI 3.0.0 document', true])
  })
})

describe('JSON that takes far more memory than its text', () => {
  it('is not parsed by a probe: running out of memory in the thread would end the process', async () => {
    expect(await readHead(`{"openapi":"3.0.0","x":[${'{},'.repeat(20 * MIB)}1]}`)).toBeUndefined()
  })

  it.each([
    ['MCP', probeMcp],
    ['OTC', probeOtc],
    ['OpenTool', probeOpenTool],
  ])('does not block the serving thread as an answer to a probe for %s', async (_, probe) => {
    const body = `{"jsonrpc":"2.0","id":"collet-import","result":{},"tools":[${'[1],'.repeat(4 * MIB)}1]}`
    const type = { 'content-type': 'application/json' }
    const send = async () => new Response(body, { headers: type })
    const signal = AbortSignal.timeout(60_000)
    const turn = await longestTurn(async () => {
      const look = probe('https://a.example/mcp', { send, signal, apiKey: undefined })
      expect(await look.catch(() => ({ kind: 'other' }))).toEqual({ kind: 'other' })
    })
    expect(turn).toBeLessThan(MAX_TURN_MS)
  })
})

it('the self-description of a document is read from JSON and YAML of any size, but not from pages or text', async () => {
  const head = { openapi: '3.1.0', info: { title: 'Sample' }, server: { url: 'https://a.example' } }
  const large = { ...head, filler: 'x'.repeat(200_000) }
  expect(await readHead(JSON.stringify(head))).toEqual(head)
  expect(await readHead(`\uFEFF${JSON.stringify(large)}`)).toEqual(head)
  expect(
    await readHead('openapi: 3.1.0\ninfo: { title: Sample }\nserver: { url: "https://a.example" }'),
  ).toEqual(head)
  for (const text of ['<html>', 'only words', '[1, 2]', 'a: [', ''])
    expect(await readHead(text)).toBeUndefined()
})

it('repeated YAML aliases are counted before they are expanded', async () => {
  const names = Array.from({ length: 450 }, (_, nth) => `  /p${nth}: { get: { description: *a } }`).join('\n')
  const text = `openapi: 3.0.0\ninfo: { title: T, version: '1' }\nx-a: &a "${'x'.repeat(MIB)}"\npaths:\n${names}\n`
  const options = SOURCE_OPTIONS.parse({ type: 'openapi', file: fileOf(text), baseUrl: 'https://a.example' })
  const source = await openSource('Bomb', options, servicesTo('https://a.example'))
  onTestFinished(() => source.close())
  const before = process.memoryUsage.rss()
  let peak = before
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss())
  }, 5)
  await expect(source.discover(AbortSignal.timeout(60_000))).rejects.toThrow()
  clearInterval(watch)
  expect((peak - before) / MIB).toBeLessThan(300)
})
