import { spawn } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { CatalogChanges } from '#kernel/tool/catalog-changes'
import { requireTools } from '#kernel/tool/prepare-tools'
import { type RunningServer, startServer } from '#server/start-server'
import { sqliteSettings } from '../test-settings.ts'
import { suiteTools } from './mcp-tools.ts'

const CLI = fileURLToPath(
  new URL('../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
)
const EXPECTED = fileURLToPath(new URL('./mcp-expected-failures.yaml', import.meta.url))
const LIMIT_MS = 120_000

const checksShape = z.array(
  z.object({ id: z.string(), status: z.string(), errorMessage: z.string().optional() }),
)

interface SuiteRun {
  readonly exitCode: number | null
  readonly output: string
  readonly passed: number
}

/** The official suite in its own process, as users run it. */
async function runSuite(url: string, how: readonly string[]): Promise<SuiteRun> {
  const folder = mkdtempSync(join(tmpdir(), 'collet-mcp-suite-'))
  try {
    const args = [CLI, 'server', '--url', `${url}/mcp`, ...how, '--expected-failures', EXPECTED, '-o', folder]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)))
    const exitCode = await new Promise<number | null>((resolve) => child.on('close', resolve))
    const checks = globSync('**/checks.json', { cwd: folder }).flatMap((file) =>
      checksShape.parse(JSON.parse(readFileSync(join(folder, file), 'utf8'))),
    )
    return { exitCode, output, passed: checks.filter(({ status }) => status === 'SUCCESS').length }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

describe('the official MCP suite, on SQLite', () => {
  const settings = sqliteSettings()
  let server: RunningServer

  beforeAll(async () => {
    const catalogChanges = new CatalogChanges()
    const tools = requireTools(suiteTools(catalogChanges), { describeParameters: false })
    server = await startServer({ ...settings, tools }, { graceMs: 0, catalogChanges })
  })
  afterAll(async () => {
    await server.close()
    rmSync(settings.dataFolder, { recursive: true })
  })

  it.each([
    { revision: '2025-06-18', atLeast: 56 },
    { revision: '2025-11-25', atLeast: 80 },
    { revision: '2026-07-28', atLeast: 152 },
  ])(
    'MCP-19, MCP-22…24, MCP-29/30, MCP-33…36, MCP-45…48, MCP-70…74, MCP-79, MCP-82: $revision passes, except for what is listed as expected',
    async ({ revision, atLeast }) => {
      const { exitCode, output, passed } = await runSuite(server.url, [
        '--suite',
        'all',
        '--spec-version',
        revision,
      ])
      expect(exitCode, output).toBe(0)
      expect(passed, output).toBeGreaterThanOrEqual(atLeast)
    },
    LIMIT_MS,
  )

  it.each(['2025-11-25', '2026-07-28'])(
    'MCP-10: the frozen requirements of %s are met',
    async (revision) => {
      const { exitCode, output } = await runSuite(server.url, ['--requirements', revision])
      expect(exitCode, output).toBe(0)
    },
    LIMIT_MS,
  )
})
