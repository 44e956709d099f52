import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { SESSION_HEADER } from '#protocols/call-wire'
import { CALL_WAYS } from '../conformance/call-ways.ts'
import { type Replicas, startReplicas } from './stage.ts'

const OPENED = z.object({ sessionId: z.string(), runId: z.string() })

let replicas: Replicas
const begun: Record<string, () => void> = {}

/** A list in the state of a session; each server logs its actions. */
const toolsOf = (server: number) => [
  {
    id: 'List.Add@1.0.0',
    description: 'Adds a text to the list of a session.',
    input: z.object({ text: z.string().describe('What.'), other: z.string().optional().describe('More.') }),
    output: z.array(z.string()),
    policy: { safetyTier: 'write' },
    session: { open: () => [`opened on ${server}`], close: () => undefined, idleMs: 60_000 },
    run: ({ text }: { text: string }, { session }: { session: string[] }) => {
      session.push(text)
      return session
    },
  },
  {
    id: 'List.Wait@1.0.0',
    description: 'Waits until it is stopped.',
    input: z.object({ name: z.string().describe('Who waits.') }),
    output: z.string(),
    policy: { safetyTier: 'write' },
    session: { open: () => [], close: () => undefined, idleMs: 60_000 },
    run: async ({ name }: { name: string }, { signal }: { signal: AbortSignal }) => {
      begun[name]?.()
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      signal.throwIfAborted()
      return name
    },
  },
]

beforeAll(async () => {
  replicas = await startReplicas('sessions', toolsOf)
}, 60_000)
afterAll(async () => {
  await replicas?.close()
})

async function open(url: string, toolId = 'openwop:List.Add'): Promise<z.infer<typeof OPENED>> {
  const response = await fetch(`${url}/v1/sessions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ toolId }),
  })
  expect(response.status).toBe(201)
  return OPENED.parse(await response.json())
}

const close = async (url: string, sessionId: string): Promise<number> =>
  (await fetch(`${url}/v1/sessions/${sessionId}`, { method: 'DELETE' })).status

const inSession = (sessionId: string) => ({ headers: { [SESSION_HEADER]: sessionId } })

describe('a session of three replicas', () => {
  it.each(Object.entries(CALL_WAYS))('%s: is served whichever replica is called', async (way, call) => {
    const { sessionId } = await open(replicas.url(0))
    const tool = way === 'OpenTool' || way === 'MCP' ? 'List_Add' : 'List.Add'
    const values: unknown[] = []
    for (const text of ['a', 'b', 'c', 'd']) {
      const answer = await call(replicas.next(), { tool, input: { text }, ...inSession(sessionId) })
      expect(answer).toMatchObject({ code: 'ok' })
      values.push(answer.value?.result ?? answer.value)
    }
    expect(values.at(-1)).toEqual(['opened on 0', 'a', 'b', 'c', 'd'])
    expect(await close(replicas.url(1), sessionId)).toBe(204)
    expect(await close(replicas.url(2), sessionId)).toBe(404)
    const late = await call(replicas.next(), { tool, input: { text: 'e' }, ...inSession(sessionId) })
    expect(late.code).toBe('session_not_found')
  })

  it('runs one call per key, whichever replica gets the repetition', async () => {
    const { sessionId } = await open(replicas.url(0))
    const asked = { tool: 'List.Add', input: { text: 'once' }, key: 'once', ...inSession(sessionId) }
    const answers = await Promise.all([0, 1, 2, 1].map((index) => CALL_WAYS.OTC(replicas.url(index), asked)))
    for (const answer of answers) expect(answer).toMatchObject({ code: 'ok', value: ['opened on 0', 'once'] })
    const other = await CALL_WAYS.OTC(replicas.url(2), { ...asked, input: { text: 'other' } })
    expect(other.code).toBe('key_conflict')
  })

  it('accepts forwarded calls as the first replica parsed them: OpenTool drops a null argument', async () => {
    const { sessionId } = await open(replicas.url(0))
    const input = { text: 'null', other: null }
    const answer = await CALL_WAYS.OpenTool(replicas.url(1), {
      tool: 'List_Add',
      input,
      ...inSession(sessionId),
    })
    expect(answer.code).toBe('ok')
  })

  it('a call that another replica forwarded is cancelled on a third', async () => {
    const { sessionId } = await open(replicas.url(0), 'openwop:List.Wait')
    const started = new Promise<void>((resolve) => {
      begun.cancelled = resolve
    })
    const asked = { tool: 'List.Wait', input: { name: 'cancelled' }, key: 'cancel-me' }
    const waiting = CALL_WAYS.OTC(replicas.url(1), { ...asked, ...inSession(sessionId) })
    await started
    const cancelled = await fetch(`${replicas.url(2)}/calls/cancel-me`, { method: 'DELETE' })
    expect(cancelled.status).toBeLessThan(300)
    expect((await waiting).code).toBe('cancelled')
  })

  it('fails with the replica that held it, with a reason', async () => {
    const owner = await replicas.start()
    const { sessionId } = await open(owner.url)
    const add = (text: string) =>
      CALL_WAYS.OTC(replicas.url(1), { tool: 'List.Add', input: { text }, ...inSession(sessionId) })
    expect(await add('a')).toMatchObject({ code: 'ok', value: ['opened on 3', 'a'] })
    await owner.close()
    const lost = await add('b')
    expect(lost.code).toBe('session_not_found')
    expect(lost.message).toMatch(/the server that held its state stopped/)
  })
})
