import { readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { describe, expect, it } from 'vitest'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { createCommandSource } from '#sources/command/index'
import { COMMAND_OPTIONS } from '#sources/command/options'
import type { Source } from '#sources/kit/source'
import { createOpenToolSource } from '#sources/opentool/index'
import { OPENTOOL_OPTIONS } from '#sources/opentool/options'
import { createOtcSource } from '#sources/otc/index'
import { OTC_OPTIONS } from '#sources/otc/options'
import { ADD, prepared } from '../samples/definitions.ts'
import { invocationOf, servicesOf } from '../sources/sample-invocation.ts'
import { servicesTo, startUpstream } from '../sources/upstream.ts'
import { readBlocks } from './markdown-blocks.ts'

const DOCUMENTED_URL = 'https://tools.example.com'

/** The one source of a document's config. */
function documented(file: string, url = DOCUMENTED_URL): readonly [string, JsonObject] {
  const [block] = readBlocks(file).filter(({ language }) => language === 'json')
  const config: JsonValue = JSON.parse((block?.text ?? '').replaceAll(DOCUMENTED_URL, url))
  const sources = isJsonObject(config) ? config.sources : undefined
  const [[key, options] = []] = Object.entries(isJsonObject(sources) ? sources : {})
  if (key === undefined || !isJsonObject(options)) throw new Error(`${file} has no source`)
  return [key, options]
}

/** Rows `| name | input | result |` of a document. */
function rowsOf(file: string): readonly (readonly [string, JsonObject, JsonValue])[] {
  const text = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
  return [...text.matchAll(/^\| `([\w.-]+)` +\| `(\{.*?\})` +\| `(.*?)` +\|$/gm)].map(
    ([, name = '', input = '', expected = '']) => [name, JSON.parse(input), JSON.parse(expected)] as const,
  )
}

async function play(source: Source, file: string): Promise<void> {
  const rows = rowsOf(file)
  expect(rows.length).toBeGreaterThan(0)
  const discovery = await source.discover(new AbortController().signal)
  for (const [name, input, expected] of rows) {
    expect([name, await source.invoke(invocationOf(discovery, name, input))]).toEqual([name, expected])
  }
  await source.close()
}

describe('the examples of docs/sources', () => {
  it('command.md: every row returns the shown result', async () => {
    const [key, options] = documented('docs/sources/command.md')
    const services = servicesOf({ folder: tmpdir(), environment: process.env })
    await play(createCommandSource(key, COMMAND_OPTIONS.parse(options), services), 'docs/sources/command.md')
  })

  it('otc.md: every row returns the shown result', async () => {
    const { url } = await startUpstream({ tools: [prepared(ADD)] })
    const [key, options] = documented('docs/sources/otc.md', url)
    await play(createOtcSource(key, OTC_OPTIONS.parse(options), servicesTo(url)), 'docs/sources/otc.md')
  })

  it('opentool.md: every row returns the shown result', async () => {
    const { url } = await startUpstream({ tools: [prepared(ADD)] })
    const [key, options] = documented('docs/sources/opentool.md', url)
    const source = createOpenToolSource(key, OPENTOOL_OPTIONS.parse(options), servicesTo(url))
    await play(source, 'docs/sources/opentool.md')
  })
})

/** Options that a document must name: those of its type, without the options of every source. */
const COMMON = ['type', 'description', 'tenants', 'policy', 'tools', 'include', 'exclude', 'vendor']

describe('the options in docs/sources', () => {
  it.each([
    [
      'command.md',
      [...Object.keys(COMMAND_OPTIONS.shape), ...Object.keys(COMMAND_OPTIONS.shape.commands.valueType.shape)],
    ],
    ['otc.md', Object.keys(OTC_OPTIONS.shape)],
    ['opentool.md', Object.keys(OPENTOOL_OPTIONS.shape)],
  ])('%s names every one', (file, names) => {
    const text = readFileSync(new URL(`../../docs/sources/${file}`, import.meta.url), 'utf8')
    const missing = names.filter((name) => !COMMON.includes(name) && !text.includes(name))
    expect(missing).toEqual([])
  })
})
