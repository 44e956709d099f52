import { rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import { type RunningServer, startServer } from '#server/start-server'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { contentOf, faulty } from '../sources/fault-mcp.ts'
import { testSettings } from '../test-settings.ts'

const LIMIT_MS = 30_000

describe('an MCP program behind the server', () => {
  let collet: RunningServer
  const settings = testSettings()

  beforeAll(async () => {
    const options = MCP_OPTIONS.parse({ type: 'mcp', ...faulty('plain') })
    collet = await startServer({ ...settings, sources: new Map([['Up', options]]) }, { graceMs: 0 })
  }, LIMIT_MS)

  afterAll(async () => {
    await collet.close()
    rmSync(settings.dataFolder, { recursive: true })
  })

  async function post(
    path: string,
    body: JsonValue,
    headers: Record<string, string> = {},
  ): Promise<JsonValue> {
    const response = await fetch(`${collet.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
    const answer: JsonValue = JSON.parse(await response.text())
    return answer
  }

  async function count(headers: Record<string, string> = {}): Promise<unknown> {
    const answer = await post('/tools/call', { request: { tool_id: 'Up.count', input: {} } }, headers)
    const result = isJsonObject(answer) ? answer.result : undefined
    return contentOf(isJsonObject(result) ? result.value : undefined)
  }

  it('openwop §7.3: calls of one caller use the same process; a session has its own', async () => {
    expect([await count(), await count(), await count({ 'collet-run': 'watched' })]).toEqual([1, 2, 3])
    const opened = await post('/v1/sessions', { toolId: 'mcp:Up.count' })
    const session = isJsonObject(opened) ? String(opened.sessionId) : ''
    expect(await count({ 'collet-session': session })).toBe(1)
    expect([await count({ 'collet-session': session }), await count()]).toEqual([2, 4])
  })
})
