import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const run = promisify(execFile)
const { resolve } = createRequire(import.meta.url)
const SUITE = join(dirname(resolve('@modelcontextprotocol/conformance/package.json')), 'dist/index.js')
const ADAPTER = fileURLToPath(new URL('./mcp-client-adapter.ts', import.meta.url))
const FLAGS = '--conditions=collet-source --disable-warning=ExperimentalWarning'

/** All scenarios run at once, so each client gets time on a busy machine. */
const CLIENT_MS = 150_000

/** Runs the official client suite against our source; rejects when a required scenario fails. */
async function suite(...options: string[]): Promise<string> {
  const command = `${process.execPath} ${FLAGS} ${ADAPTER}`
  const { stdout, stderr } = await run(
    process.execPath,
    [SUITE, 'client', '--command', command, '--timeout', String(CLIENT_MS), ...options],
    {
      maxBuffer: 64 * 1024 * 1024,
    },
  )
  return `${stdout}${stderr}`
}

function failing(report: string): readonly string[] {
  const rows = report.matchAll(/^✗ (\S+): /gm)
  return [...new Set([...rows].map(([, name]) => name ?? ''))].sort()
}

function passed(report: string): number {
  return Number(/^Total: (\d+) passed/m.exec(report)?.[1] ?? 0)
}

describe('the official client suite, through the source and the broker', () => {
  it('MCP-07, MCP-48, MCP-73, MCP-95, MCP-163, MCP-164: 2026-07-28, every scenario, scored or not', async () => {
    const report = await suite('--requirements', '2026-07-28')
    expect(failing(report)).toEqual([])
    expect(passed(report)).toBeGreaterThanOrEqual(493)
  }, 300_000)

  it('MCP-22, MCP-76, MCP-95: 2025-11-25, every scenario, scored or not', async () => {
    const report = await suite('--requirements', '2025-11-25')
    expect(failing(report)).toEqual([])
    expect(passed(report)).toBeGreaterThanOrEqual(345)
  }, 300_000)

  it.each(['initialize', 'tools_call'])(
    'MCP-22: 2025-06-18, %s',
    async (scenario) => {
      expect(await suite('--scenario', scenario, '--spec-version', '2025-06-18')).toContain('OVERALL: PASSED')
    },
    60_000,
  )
})
