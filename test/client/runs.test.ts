import { rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { connect } from '#client/index'
import { tool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { type RunningServer, startServer } from '#server/start-server'
import { testSettings } from '../test-settings.ts'

const next = tool({
  id: 'Counter.Next@1.0.0',
  description: 'Counts up from one.',
  input: {},
  output: { type: 'number' },
  session: { open: () => ({ value: 0 }) },
  run: (_input, { session }) => {
    session.value += 1
    return session.value
  },
})

const settings = testSettings({ tools: requireTools([next]) })
let server: RunningServer

beforeAll(async () => {
  server = await startServer(settings, { graceMs: 0 })
})

afterAll(async () => {
  await server.close()
  rmSync(settings.dataFolder, { recursive: true })
})

async function typesOf(runId: string): Promise<string[]> {
  const reply = await fetch(`${server.url}/v1/runs/${encodeURIComponent(runId)}/events/poll`)
  const { events }: { events: readonly { type: string }[] } = JSON.parse(await reply.text())
  return events.map(({ type }) => type)
}

it.each([
  ['otc', 'Counter.Next@1.0.0', 'läufe/1 %'],
  ['opentool', 'Counter_Next', 'läufe/2 %'],
] as const)(
  'over %s a call belongs to the run it names, with any characters',
  async (protocol, name, runId) => {
    const client = connect(protocol === 'opentool' ? `${server.url}/opentool` : server.url, { protocol })
    expect(await client.call(name, {}, { runId })).toMatchObject({ value: 1, runId })
    expect(await typesOf(runId)).toEqual([
      'tool.session.opened',
      'agent.toolCalled',
      'agent.toolReturned',
      'tool.session.closed',
    ])
  },
)

it.each([
  ['otc', 'Counter.Next@1.0.0'],
  ['opentool', 'Counter_Next'],
] as const)('over %s calls of one session share its state', async (protocol, name) => {
  const client = connect(protocol === 'opentool' ? `${server.url}/opentool` : server.url, { protocol })
  const reply = await fetch(`${server.url}/v1/sessions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ toolId: 'openwop:Counter.Next' }),
  })
  const { sessionId }: { sessionId: string } = JSON.parse(await reply.text())
  expect((await client.call(name, {}, { sessionId })).value).toBe(1)
  expect((await client.call(name, {}, { sessionId })).value).toBe(2)
})
