import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { requireTools } from '#kernel/tool/prepare-tools'
import { type RunningServer, startServer } from '#server/start-server'
import { sqliteSettings } from '../test-settings.ts'
import { taskTools } from './mcp-task-tools.ts'

const run = promisify(execFile)
const CLI = fileURLToPath(
  new URL('../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
)

/** The suite leaves the scenario of notifications out itself. */
const SCENARIOS = [
  'tasks-lifecycle',
  'tasks-capability-negotiation',
  'tasks-wire-fields',
  'tasks-request-state-removal',
  'tasks-mrtr-input',
  'tasks-request-headers',
  'tasks-dispatch-and-envelope',
  'tasks-required-task-error',
  'tasks-mrtr-composition',
] as const

describe('the scenarios of the official suite for tasks, on SQLite', () => {
  const settings = sqliteSettings({ tools: requireTools(taskTools(), { describeParameters: false }) })
  let server: RunningServer

  beforeAll(async () => {
    server = await startServer(settings, { graceMs: 0 })
  })
  afterAll(async () => {
    await server.close()
    rmSync(settings.dataFolder, { recursive: true })
  })

  it.each(SCENARIOS)('MCP-120 to MCP-123, MCP-126: %s passes', async (scenario) => {
    const url = `${server.url}/mcp`
    const args = ['server', '--url', url, '--scenario', scenario, '--spec-version', '2026-07-28', '--force']
    const { stdout } = await run(process.execPath, [CLI, ...args], {
      env: { ...process.env, NODE_OPTIONS: '' },
    })
    expect(stdout).toMatch(/Passed: (\d+)\/\1, 0 failed, 0 warnings/)
  })
})
