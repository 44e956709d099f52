import { readFileSync, rmSync } from 'node:fs'
import { expect, it, onTestFinished } from 'vitest'
import { startServer } from '#server/start-server'
import { createLog } from '#server/telemetry/log'
import { sqliteSettings } from '../test-settings.ts'
import { TOOLS } from './principals-server.ts'

/** Ids chosen by callers may be private: the log has the record id, which operators with permission can look up. */
const CALLS = {
  OTC: ['/tools/call', { request: { tool_id: 'Open.Say', call_id: 'canary-1', input: {} } }],
  'OTC with a run': [
    '/tools/call',
    { request: { tool_id: 'Open.Say', call_id: 'canary-2', run_id: 'canary-run', input: {} } },
  ],
  OpenTool: ['/opentool/call', { jsonrpc: '2.0', method: 'Open_Say', params: {}, id: 'canary-3' }],
} as const

it.each(Object.entries(CALLS))(
  '%s: the log at level debug has no id that the caller chose',
  async (_, [path, body]) => {
    const lines: string[] = []
    const settings = sqliteSettings({ tools: TOOLS })
    onTestFinished(() => rmSync(settings.dataFolder, { recursive: true }))
    const log = createLog('debug', { write: (line) => lines.push(line) })
    const server = await startServer({ ...settings, logLevel: 'debug' }, { graceMs: 0, log })
    onTestFinished(() => server.close())
    await fetch(`${server.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify(body),
    }).then((response) => response.text())
    const requests = lines.filter((line) => line.includes('"msg":"request"'))
    expect(requests).toHaveLength(1)
    expect(JSON.parse(requests[0] ?? '{}')).toMatchObject({ outcome: 'ok', status: 200 })
    expect(lines.join('\n')).not.toContain('canary')
    const token = readFileSync(server.startTokenFile, 'utf8').trim()
    const listed = await fetch(`${server.url}/admin/calls`, { headers: { authorization: `Bearer ${token}` } })
    const { calls }: { calls: { record: string }[] } = JSON.parse(await listed.text())
    // Operators with permission find the call by the record id of the line.
    expect(calls.map(({ record }) => record)).toEqual([JSON.parse(requests[0] ?? '{}').record])
  },
)
