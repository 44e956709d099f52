import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Finding } from '#kernel/base/errors'
import { checkSchema } from '#schema/check'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { readBlocks } from '../docs/markdown-blocks.ts'
import { EVERYTHING, FILESYSTEM, freePort, startEverything } from './everything-server.ts'
import { openMcp } from './open-mcp.ts'

const PAGE = 'docs/sources/mcp.md'
const blocks = readBlocks(PAGE)
const samples = blocks.filter(({ language }) => language === 'json').map(({ text }) => JSON.parse(text))

/** The options that the page shows for a source. */
async function shown(key: string): Promise<Record<string, unknown>> {
  const folder = mkdtempSync(join(tmpdir(), 'collet-docs-'))
  for (const [index, { text, language }] of blocks.entries()) {
    if (language !== 'ts' || !text.includes(`${key}: {`)) continue
    const file = join(folder, `config-${index}.mjs`)
    writeFileSync(file, text)
    const config: unknown = await import(file)
    return (
      (config as { default: { sources: Record<string, Record<string, unknown>> } }).default.sources[key] ?? {}
    )
  }
  throw new Error(`the page shows no ${key}`)
}

describe(PAGE, () => {
  it('shows sources that can be read', async () => {
    for (const key of ['Files', 'Everything', 'Tracker'])
      expect(MCP_OPTIONS.safeParse(await shown(key)).error?.issues ?? []).toEqual([])
  })

  it('names every option', () => {
    const text = readFileSync(new URL(`../../${PAGE}`, import.meta.url), 'utf8')
    const table = /## Options\n([\s\S]*?)\n## /.exec(text)?.[1] ?? ''
    const missing = Object.keys(MCP_OPTIONS.shape).filter(
      (name) => name !== 'type' && !table.includes(`\`${name}\``),
    )
    expect(missing).toEqual([])
  })

  it('a program answers as shown', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'collet-docs-'))
    writeFileSync(join(folder, 'hello.txt'), 'Hello!\n')
    const options = await shown('Files')
    // The package is installed already.
    const installed = { command: process.execPath, args: [FILESYSTEM, '.'] }
    const upstream = openMcp({ ...options, ...installed }, { services: { folder } })
    const { tools } = await upstream.discover()
    expect(tools.map(({ nativeName, policy }) => [nativeName, policy.safetyTier])).toEqual([
      ['read_text_file', 'read'],
      ['write_file', 'write'],
    ])
    expect(await upstream.call('read_text_file', samples[0])).toEqual(samples[1])
    await expect(upstream.call('read_text_file', { path: '/etc/passwd' })).rejects.toMatchObject({
      code: 'tool_failed',
      message: expect.stringContaining('Access denied - path outside allowed directories: '),
    })
    await upstream.source.close()
  }, 30_000)

  it('a server on HTTP answers as shown', async () => {
    const server = await startEverything(await freePort())
    const upstream = openMcp({ ...(await shown('Everything')), url: server.url })
    const { tools } = await upstream.discover()
    expect(tools.find(({ nativeName }) => nativeName === 'echo')?.policy.safetyTier).toBe('pure')
    expect(await upstream.call('echo', samples[2])).toEqual(samples[3])
    await upstream.source.close()
    await server.stop()
  }, 30_000)
})

describe('definitions of real servers', () => {
  it.each([
    ['server-everything', [EVERYTHING, 'stdio']],
    ['server-filesystem', [FILESYSTEM, '.']],
  ])(
    '%s: every schema is enforced (MCP-54)',
    async (_name, args) => {
      const upstream = openMcp({ command: process.execPath, args })
      const { tools } = await upstream.discover()
      const findings: Omit<Finding, 'toolId'>[] = []
      for (const { nativeName, inputSchema, outputSchema } of tools)
        for (const schema of [inputSchema, outputSchema ?? {}])
          checkSchema(
            schema,
            nativeName,
            (where, problem, fix) => void findings.push({ where, problem, fix }),
            {
              references: 'allowed',
            },
          )
      expect(findings).toEqual([])
      expect(tools.length).toBeGreaterThan(10)
      await upstream.source.close()
    },
    30_000,
  )
})
