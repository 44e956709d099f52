import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { connect } from '#client/index'
import { startServer } from '#server/start-server'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { sqliteSettings } from '../test-settings.ts'

/** An MCP server whose schema holds the time of its start, as real ones do. */
const PROGRAM = `
import { createInterface } from 'node:readline'
const inputSchema = {
  type: 'object',
  properties: { from: { type: 'string', default: new Date().toISOString() + Math.random(), examples: [Math.random()] } },
}
const results = {
  initialize: { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'clock', version: '1.0.0' } },
  'tools/list': { tools: [{ name: 'report', description: 'Reports.', inputSchema }] },
  'tools/call': { content: [{ type: 'text', text: 'reported' }] },
}
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method } = JSON.parse(line)
  if (id === undefined) continue
  const result = results[method]
  const answer = result === undefined ? { error: { code: -32601, message: 'Unknown method' } } : { result }
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, ...answer }) + '\\n')
}
`

const settings = sqliteSettings()

afterAll(() => rmSync(settings.dataFolder, { recursive: true }))

it('rule 32: a default that differs at each start suspends no tool', { timeout: 60_000 }, async () => {
  const program = join(settings.dataFolder, 'clock.mjs')
  writeFileSync(program, PROGRAM)
  const source = MCP_OPTIONS.parse({ type: 'mcp', command: process.execPath, args: [program] })
  const reported: unknown[] = []
  for (let start = 0; start < 3; start += 1) {
    const server = await startServer({ ...settings, sources: new Map([['Clock', source]]) }, { graceMs: 0 })
    try {
      const { value } = await connect(server.url).call('Clock.report', {})
      reported.push(value)
    } finally {
      await server.close()
    }
  }
  expect(reported).toEqual([expect.anything(), reported[0], reported[0]])
  expect(JSON.stringify(reported[0])).toContain('reported')
})
