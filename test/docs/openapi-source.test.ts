import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Discovery } from '#sources/kit/source'
import { OPENAPI_OPTIONS } from '#sources/openapi/options'
import { call, openSource, SIGNAL, toolOf } from '../sources/openapi/imported-api.ts'
import { type RecordingServer, startRecordingServer } from '../sources/openapi/recording-server.ts'
import { type MarkdownBlock, readBlocks } from './markdown-blocks.ts'

const blocks = readBlocks('docs/sources/openapi.md')
let folder: string
let server: RecordingServer

beforeAll(async () => {
  server = await startRecordingServer()
  folder = mkdtempSync(join(tmpdir(), 'collet-openapi-docs-'))
  writeFileSync(join(folder, 'shop.yaml'), blockWith('yaml', 'openapi:').text)
})
afterAll(async () => {
  await server.close()
  rmSync(folder, { recursive: true })
})

function blockWith(language: string, text: string): MarkdownBlock {
  const found = blocks.find((block) => block.language === language && block.text.includes(text))
  if (found === undefined) throw new Error(`the document has no ${language} block with ${text}`)
  return found
}

async function run(block: MarkdownBlock): Promise<Readonly<Record<string, unknown>>> {
  const file = join(folder, `line-${block.line}.ts`)
  writeFileSync(file, block.text)
  return import(/* @vite-ignore */ pathToFileURL(file).href)
}

/** The source as the document configures it, calling the test's server. */
async function open(more: object = {}) {
  const { default: config } = await run(blockWith('ts', 'sources:'))
  const { sources } = JSON.parse(JSON.stringify(config))
  const opened = openSource({ ...sources.shop, ...more }, { folder, allow: [server.host] })
  return { ...opened, discovery: await opened.source.discover(SIGNAL) }
}

function table({ tools }: Discovery): string {
  const longest = Math.max(...tools.map(({ nativeName }) => nativeName.length))
  return tools
    .map(
      ({ nativeName, policy }) =>
        `${nativeName.padEnd(longest)}  ${policy.safetyTier?.padEnd(5)}  ${policy.replay}\n`,
    )
    .join('')
}

describe('the examples of docs/sources/openapi.md', () => {
  it('the configuration creates the shown tools, at the chosen server', async () => {
    const { discovery, close } = await open()
    expect(table(discovery)).toBe(blockWith('text', 'listOrders ').text)
    expect(toolOf(discovery, 'createOrder').inputSchema).toEqual(JSON.parse(blockWith('json', '$defs').text))
    expect(toolOf(discovery, 'listOrders').requirements).toEqual({ secrets: [{ id: 'SHOP_KEY' }] })
    expect(toolOf(discovery, 'listOrders').binding.baseUrl).toBe('https://us.shop.example/v1')
    await close()
  })

  it('a call sends the shown request, and its answer becomes the shown output', async () => {
    const { source, discovery, close } = await open({ baseUrl: `${server.origin}/v1` })
    const output = JSON.parse(blockWith('json', '"next"').text)
    server.answer(() => ({
      headers: { 'content-type': 'application/json', link: output.headers.link },
      body: JSON.stringify(output.body),
    }))
    const input = JSON.parse(blockWith('json', '"status"').text)
    const value = await call(source, toolOf(discovery, 'listOrders'), input, {
      secrets: { SHOP_KEY: 'canary' },
    })
    expect(value).toEqual(output)
    const [sent] = server.requests
    const lines = [
      `${sent?.method} ${sent?.url}`,
      `accept: ${sent?.headers.accept}`,
      `x-shop-key: ${sent?.headers['x-shop-key']}`,
    ]
    expect(`${lines.join('\n')}\n`.replace('canary', '…')).toBe(blockWith('text', 'x-shop-key').text)
    await close()
  })

  it('a failure reads as shown', async () => {
    const { source, discovery, close } = await open({ baseUrl: server.origin })
    server.answer(() => ({ status: 400, body: '{"error":"page is past the end"}' }))
    const calling = call(source, toolOf(discovery, 'listOrders'), {}, { secrets: { SHOP_KEY: 'canary' } })
    await expect(calling).rejects.toThrow(blockWith('text', 'answered 400').text.trim())
    await close()
  })

  it('the shown credentials are valid options', async () => {
    const { security } = await run(blockWith('ts', 'legacy'))
    expect(OPENAPI_OPTIONS.safeParse({ type: 'openapi', file: 'shop.yaml', security }).error).toBeUndefined()
  })

  it('the table names every option', () => {
    const names = Object.keys(OPENAPI_OPTIONS.shape).filter((name) => name !== 'type')
    expect(readOptionNames().toSorted()).toEqual(names.toSorted())
  })
})

function readOptionNames(): readonly string[] {
  const text = readFileSync(new URL('../../docs/sources/openapi.md', import.meta.url), 'utf8')
  const [, rows = ''] = /\| option [^\n]*\n\|[-| ]+\n((?:\|[^\n]*\n)+)/.exec(text) ?? []
  return rows
    .split('\n')
    .flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`(\w+)`/g)].map(([, name = '']) => name))
}
