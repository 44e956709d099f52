import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { SESSION_HEADER } from '#protocols/call-wire'
import type { RunningServer } from '#server/start-server'
import { CALL_WAYS } from '../conformance/call-ways.ts'
import { testSettings } from '../test-settings.ts'
import { type Replicas, startReplicas } from './stage.ts'

const OPENED = z.object({ sessionId: z.string() })

let replicas: Replicas
/** A replica that holds sessions and announces an address at which every connection is cut after the request was read. */
let holder: RunningServer
let wire: Server
const cut: Socket[] = []

const toolsOf = () => [
  {
    id: 'List.Add@1.0.0',
    description: 'Adds a text to the list of a session.',
    input: z.object({ text: z.string().describe('What.') }),
    output: z.array(z.string()),
    policy: { safetyTier: 'write' },
    session: { open: () => [], close: () => undefined, idleMs: 60_000 },
    run: ({ text }: { text: string }, { session }: { session: string[] }) => [...session, text],
  },
]

beforeAll(async () => {
  wire = createServer((socket) => {
    socket.once('data', () => {
      cut.push(socket)
      socket.destroy()
    })
  }).listen(0, '127.0.0.1')
  await once(wire, 'listening')
  const bound = wire.address()
  const port = typeof bound === 'object' ? bound?.port : 0
  replicas = await startReplicas('broken_hop', toolsOf)
  const internal = { host: '127.0.0.1', port: 0, url: `http://127.0.0.1:${port}` }
  holder = await replicas.start({ server: { ...testSettings().server, internal } })
}, 60_000)

afterAll(async () => {
  await replicas?.close()
  wire?.close()
})

async function open(): Promise<string> {
  const response = await fetch(`${holder.url}/v1/sessions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ toolId: 'openwop:List.Add' }),
  })
  return OPENED.parse(await response.json()).sessionId
}

it.each(['OTC', 'MCP'] as const)(
  'a call whose connection was cut after the request was read has an unknown outcome, over %s',
  async (way) => {
    const headers = { [SESSION_HEADER]: await open() }
    const before = cut.length
    const answer = await CALL_WAYS[way](replicas.url(0), { tool: 'List.Add', input: { text: 'a' }, headers })
    expect(cut.length).toBe(before + 1)
    // The answer does not suggest a retry: the other replica may have run the call.
    expect(answer.code).toBe('outcome_unknown')
  },
)

it('closing a session whose replica cannot be reached reports that, and not an unknown session', async () => {
  const sessionId = await open()
  wire.close()
  const response = await fetch(`${replicas.url(0)}/v1/sessions/${sessionId}`, { method: 'DELETE' })
  expect(response.status).toBe(503)
  expect(await response.text()).toContain('replica')
})
