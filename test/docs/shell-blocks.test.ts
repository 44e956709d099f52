import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { serve } from '#server/create-gateway'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { FakeIo } from '../cli/fake-io.ts'
import { callNow } from '../contracts/receipt-store-contract.ts'
import { runThrough, sampleCall } from '../contracts/samples.ts'
import { readBlocks } from './markdown-blocks.ts'

const MCP_SERVER = resolve(import.meta.dirname, '../cli/small-mcp-server.mjs')
const masterKey = Buffer.alloc(32, 9)

let folder = ''

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-shell-'))
})

afterEach(() => rmSync(folder, { recursive: true }))

/** The commands of the first shell block of a page, each as its words without `npx collet`. */
function commandsOf(page: string): readonly (readonly string[])[] {
  const text = readBlocks(page).find(({ language }) => language === 'sh')?.text ?? ''
  return text
    .trimEnd()
    .split('\n')
    .map((line) => line.replace(/ +#.*$/, ''))
    .map((line) => [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? ''))
    .map(([runner, program, ...words]) => {
      expect([runner, program]).toEqual(['npx', 'collet'])
      return words
    })
}

async function run(...argv: readonly string[]): Promise<string> {
  const environment = readEnvironment({
    ...{ HOME: folder, PATH: process.env.PATH ?? '', COLLET_KEY: masterKey.toString('base64') },
    AGENT_KEY: 'a-key-of-32-random-bytes-or-more',
  })
  const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment, clock: SYSTEM_CLOCK })
  const code = await io.run(...argv)
  expect([code, code === 0 ? '' : io.stderr]).toEqual([0, ''])
  return io.stdout
}

const writeConfig = (text: string) => writeFileSync(join(folder, 'collet.config.json'), text)

it('docs/call-lifecycle.md: an ambiguous call is found and settled', async () => {
  writeConfig('{ "store": "sqlite:collet.db" }')
  const path = join(folder, 'collet.db')
  const store = openSqliteStore({ path, masterKey })
  await store.claim(sampleCall())
  await store.close()
  const database = new DatabaseSync(path)
  database.exec("UPDATE calls SET state = 'ambiguous'")
  database.close()
  const [list = [], settle = []] = commandsOf('docs/call-lifecycle.md')
  const [, record = ''] = /\n(\S+)/.exec(await run(...list)) ?? []
  expect(await run(...settle.map((word) => (word === 'RECORD' ? record : word)))).toBe(
    `${record} is settled as succeeded.\n`,
  )
})

it('docs/toolsets.md: a key that is limited to a toolset is created beside the config', async () => {
  const blocks = readBlocks('docs/toolsets.md')
  const at = blocks.findIndex(({ language }) => language === 'sh')
  writeConfig(blocks[at + 1]?.text ?? '')
  const [create = []] = commandsOf('docs/toolsets.md')
  expect(await run(...create)).toMatch(/^clt_/)
})

it('docs/sources/import.md: each way of importing adds its source', async () => {
  const upstream = await serve({ tools: [], store: 'memory:', server: { port: 0 } }, { folder })
  const mcpServers = { notes: { command: process.execPath, args: [MCP_SERVER, 'notes', 'read_note'] } }
  const claude = { linux: '.config/Claude', darwin: 'Library/Application Support/Claude' }
  const place = join(folder, process.platform === 'darwin' ? claude.darwin : claude.linux)
  mkdirSync(place, { recursive: true })
  writeFileSync(join(place, 'claude_desktop_config.json'), JSON.stringify({ mcpServers }))
  const operation = { tags: ['invoices'], responses: { 200: { description: 'ok' } } }
  const document = {
    openapi: '3.1.0',
    info: { title: 'Billing', version: '1' },
    servers: [{ url: 'https://billing.example' }],
    paths: { '/invoices': { get: operation } },
  }
  writeFileSync(join(folder, 'openapi.yaml'), JSON.stringify(document))
  const program = [process.execPath, MCP_SERVER, 'files', 'read_file']
  try {
    for (const words of commandsOf('docs/sources/import.md')) {
      const cut = words.indexOf('--')
      const own = (cut === -1 ? words : words.slice(0, cut)).map((word) =>
        word === 'https://tools.example.com' ? upstream.url : word,
      )
      await run(...own, '--yes', ...(cut === -1 ? [] : ['--', ...program]))
    }
  } finally {
    await upstream.close()
  }
  const store = openSqliteStore({ path: join(folder, '.collet/collet.db'), masterKey })
  const types = (await store.sources.list()).map(({ options }) => options.type)
  await store.close()
  expect(types.toSorted()).toEqual(['mcp', 'mcp', 'openapi', 'otc'])
})

it('docs/audit.md: the journal is read, exported and verified, and a call is proven to others', async () => {
  writeConfig('{ "store": "sqlite:collet.db" }')
  const store = openSqliteStore({ path: join(folder, 'collet.db'), masterKey })
  await runThrough(store, callNow({ record: '4f1cAAAAAAAAAAAAAAAAAAAA' }))
  await store.close()
  const printed: string[] = []
  for (const words of commandsOf('docs/audit.md')) {
    const end = words.indexOf('>')
    const text = await run(...words.slice(0, end === -1 ? undefined : end))
    if (end === -1) printed.push(text)
    else writeFileSync(join(folder, words[end + 1] ?? ''), text)
  }
  expect(printed).toEqual([
    '',
    '',
    expect.stringContaining('✓ The journal is intact'),
    '',
    expect.stringMatching(/^✓ Unchanged: 1 call, .*Call 4f1cAAAA/s),
  ])
})
