import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { serve } from 'collet'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Provider, startProvider } from '../agents/provider.ts'
import { makeShop, type Shop } from '../agents/shop.ts'
import { readBlocks } from './markdown-blocks.ts'

/** Runs every program of docs/agents.md against a server and a provider of this test. */

const run = promisify(execFile)
const ROOT = resolve(import.meta.dirname, '../..')
const folder = mkdtempSync(join(tmpdir(), 'collet-agents-docs-'))
const programs = readBlocks('docs/agents.md').filter(({ text }) => text.startsWith('// '))
const shop: Shop = makeShop()
let provider: Provider
let server: Awaited<ReturnType<typeof serve>>

beforeAll(async () => {
  server = await serve({ tools: shop.tools, store: 'memory:', server: { port: 0 }, log: { level: 'silent' } })
  provider = await startProvider([[{ name: 'Shop_Mail', input: { to: 'ann@example.com' } }]])
  symlinkSync(ROOT, join(folder, 'collet'))
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
})

afterAll(async () => {
  await provider.close()
  await server.close()
  rmSync(folder, { recursive: true })
})

it('has a program for each library', () => {
  expect(programs.map(({ text }) => text.split('\n', 1)[0])).toEqual(
    ['ai-sdk', 'openai', 'openai-agents', 'anthropic', 'langgraph', 'mastra'].map((name) => `// ${name}.ts`),
  )
})

it.each(programs.map(({ text }) => [/^\/\/ (\S+)/.exec(text)?.[1] ?? '', text] as const))(
  '%s prints what the page shows, and sends one mail',
  async (name, text) => {
    shop.effects.length = 0
    const program = text.replaceAll(/'(collet\/[\w-]+)'/g, (_, id: string) => `'${import.meta.resolve(id)}'`)
    writeFileSync(join(folder, name), program)
    const env = {
      ...process.env,
      ...{
        NODE_OPTIONS: '',
        COLLET_URL: server.url,
        MODEL_URL: `${provider.url}/v1`,
        ANTHROPIC_URL: provider.url,
      },
    }
    const args = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning', name]
    const { stdout } = await run(process.execPath, args, { cwd: folder, env })
    const printed = [...text.matchAll(/console\.log\(.*\) \/\/ → (.*)$/gm)].map(([, shown]) => shown)
    expect(stdout.trimEnd().split('\n')).toEqual(printed)
    expect(shop.effects).toEqual(['mail ann@example.com'])
  },
)
