import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { RUN_HEADER } from '#protocols/call-wire'
import { NO_LIMIT } from '#stages/limits/budgets'
import { NO_LIMITS, UNLIMITED } from '#stages/limits/settings'
import { CALL_WAYS } from '../conformance/call-ways.ts'
import { AUTH, KEYS } from '../server/approval-stage.ts'
import { type Replicas, startReplicas } from './stage.ts'

let replicas: Replicas
const ran: string[] = []
/** Called when a run of this name begins; the run continues when the promise resolves. */
const gates = new Map<string, { begun(): void; readonly free: Promise<void> }>()

const named = z.object({ name: z.string().describe('A name.') })
const writes = (id: string, more: object = {}) => ({
  id,
  description: 'Writes.',
  input: named,
  output: z.string(),
  policy: { safetyTier: 'write' },
  run: async ({ name }: { name: string }, { signal }: { signal: AbortSignal }) => {
    ran.push(name)
    const gate = gates.get(name)
    gate?.begun()
    const stopped = new Promise((_, reject) => signal.addEventListener('abort', reject))
    await Promise.race([gate?.free, stopped])
    return `${name} is done`
  },
  ...more,
})
const toolsOf = () => [
  writes('Kit.Write@1.0.0'),
  writes('Kit.Ask@1.0.0', { policy: { safetyTier: 'write', approval: 'always' } }),
  writes('Kit.Rare@1.0.0'),
]

const RARELY = { rate: { perMs: 1e-7, burst: 3 }, concurrent: undefined }

beforeAll(async () => {
  replicas = await startReplicas('promises', toolsOf, {
    auth: AUTH,
    limits: { ...NO_LIMITS, byTool: new Map([['Kit.Rare', { ...RARELY, perPrincipal: UNLIMITED }]]) },
    budgets: [
      {
        ...{ for: 'principal', of: new Set(['key:mallory']), windowMs: 86_400_000 },
        limit: { calls: 5, milliseconds: NO_LIMIT, cost: NO_LIMIT },
      },
    ],
  })
}, 60_000)
afterAll(async () => {
  await replicas?.close()
})

const as = (who: keyof typeof KEYS) => ({ authorization: `Bearer ${KEYS[who]}` })

/** A run that waits until it is released. */
function gate(name: string): { readonly begun: Promise<void>; free(): void } {
  const begun = Promise.withResolvers<void>()
  const free = Promise.withResolvers<void>()
  gates.set(name, { begun: begun.resolve, free: free.promise })
  return { begun: begun.promise, free: free.resolve }
}

async function ask(url: string, path: string, init: RequestInit & { who?: keyof typeof KEYS } = {}) {
  const { who = 'alice', ...rest } = init
  const headers = { 'content-type': 'application/json', ...as(who), ...init.headers }
  const response = await fetch(`${url}${path}`, { ...rest, headers })
  const text = await response.text()
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  const json: any = text.startsWith('{') ? JSON.parse(text) : undefined
  return { status: response.status, headers: response.headers, text, json }
}

const write = (name: string, more: object = {}) => ({
  tool: 'Kit.Write',
  input: { name },
  headers: as('alice'),
  ...more,
})

describe('three replicas', () => {
  it.each(Object.entries(CALL_WAYS))(
    '%s: a call that is repeated on another replica joins the run there',
    async (way, call) => {
      const name = `join ${way}`
      const { begun, free } = gate(name)
      const tool = way === 'OpenTool' || way === 'MCP' ? 'Kit_Write' : 'Kit.Write'
      const asked = write(name, { tool, key: `join-${way}` })
      const first = call(replicas.url(0), asked)
      await begun
      const others = [1, 2].map((index) => call(replicas.url(index), asked))
      await new Promise((resolve) => setTimeout(resolve, 100))
      free()
      for (const answer of await Promise.all([first, ...others])) {
        expect(answer.code).toBe('ok')
        expect(answer.value?.result ?? answer.value).toBe(`${name} is done`)
      }
      expect(ran.filter((each) => each === name)).toHaveLength(1)
    },
  )

  it('run a keyed call once, even if all of them get it at the same moment', async () => {
    const asked = write('at once', { key: 'at-once' })
    const answers = await Promise.all([0, 1, 2, 0, 1, 2].map((at) => CALL_WAYS.OTC(replicas.url(at), asked)))
    for (const answer of answers) expect(answer).toMatchObject({ code: 'ok', value: 'at once is done' })
    expect(ran.filter((each) => each === 'at once')).toHaveLength(1)
  })

  it('a call is seen and cancelled on a replica that does not run it', async () => {
    const { begun } = gate('cancelled')
    const running = CALL_WAYS.OTC(replicas.url(0), write('cancelled', { key: 'cancel-me' }))
    await begun
    expect((await ask(replicas.url(1), '/calls/cancel-me')).json).toMatchObject({ state: 'running' })
    await ask(replicas.url(2), '/calls/cancel-me', { method: 'DELETE' })
    expect((await running).code).toBe('cancelled')
  })

  it('show the events of a run in one order, whichever replica wrote them', async () => {
    const headers = { ...as('alice'), [RUN_HEADER]: 'shared-run' }
    for (const name of ['a', 'b', 'c', 'd', 'e'])
      expect((await CALL_WAYS.OTC(replicas.next(), write(name, { headers }))).code).toBe('ok')
    const read = async (index: number) =>
      (await ask(replicas.url(index), '/v1/runs/shared-run/events/poll')).json.events
    const [one, other, third] = await Promise.all([0, 1, 2].map(read))
    expect(one.map(({ sequence }: { sequence: number }) => sequence)).toEqual([...one.keys()])
    expect(one).toHaveLength(10)
    expect(other).toEqual(one)
    expect(third).toEqual(one)
  })

  it('a reader on one replica gets at once the events that another writes', async () => {
    const headers = { ...as('alice'), [RUN_HEADER]: 'followed' }
    await CALL_WAYS.OTC(replicas.url(0), write('first', { headers }))
    const waiting = ask(replicas.url(1), '/v1/runs/followed/events/poll?lastSequence=1&timeout=10')
    await CALL_WAYS.OTC(replicas.url(2), write('second', { headers }))
    const [next] = (await waiting).json.events
    expect(next.sequence).toBe(2)
  })

  it('an approval is requested on one, granted on another and used on a third', async () => {
    const call = (url: string) =>
      ask(url, '/tools/call', {
        method: 'POST',
        body: JSON.stringify({ request: { tool_id: 'Kit.Ask', call_id: 'ask-1', input: { name: 'asked' } } }),
      })
    const parked = await call(replicas.url(0))
    expect(parked.headers.get('collet-error-code')).toBe('approval_required')
    const { id } = parked.json.missing_requirements.approval
    expect((await ask(replicas.url(1), `/approvals/${id}`)).text).toContain('waits for an approval')
    const approve = { method: 'POST', body: '{}', who: 'bob' } as const
    expect((await ask(replicas.url(1), `/admin/approvals/${id}/approve`, approve)).status).toBe(200)
    const answers = await Promise.all([call(replicas.url(2)), call(replicas.url(0))])
    for (const { json } of answers) expect(json.result).toMatchObject({ success: true })
    expect(ran.filter((each) => each === 'asked')).toHaveLength(1)
  })

  it('share a budget to the last call, and a rate to the last token', async () => {
    const codesOf = async (tool: string, who: keyof typeof KEYS, times: number) => {
      const asked = { tool, input: { name: 'limited' }, headers: as(who) }
      const calls = Array.from({ length: times }, () => CALL_WAYS.OTC(replicas.next(), asked))
      return Map.groupBy(await Promise.all(calls), ({ code }) => code)
    }
    const spent = await codesOf('Kit.Write', 'mallory', 12)
    expect([spent.get('ok')?.length, spent.get('budget_exceeded')?.length]).toEqual([5, 7])
    const rated = await codesOf('Kit.Rare', 'alice', 12)
    expect([rated.get('ok')?.length, rated.get('rate_limited')?.length]).toEqual([3, 9])
  })

  it('a key created on one works on all, and a key revoked on another on none, within a second or two', async () => {
    const operator = { authorization: `Bearer ${readFileSync(tokenOf(0), 'utf8').trim()}` }
    const body = JSON.stringify({ principal: 'new', scopes: [], tenant: 'acme' })
    const made = await ask(replicas.url(0), '/admin/keys', { method: 'POST', body, headers: operator })
    expect(made.status, made.text).toBe(201)
    const mine = { authorization: `Bearer ${made.json.key}` }
    const statusesBecome = async (wanted: number) => {
      const untilMs = performance.now() + 10_000
      const look = () =>
        Promise.all(
          [0, 1, 2].map(async (at) => (await ask(replicas.url(at), '/calls', { headers: mine })).status),
        )
      let seen = await look()
      while (seen.some((status) => status !== wanted) && performance.now() < untilMs) seen = await look()
      return seen
    }
    expect(await statusesBecome(200)).toEqual([200, 200, 200])
    const other = { authorization: `Bearer ${readFileSync(tokenOf(2), 'utf8').trim()}` }
    const { key_id: id } = made.json
    const revoked = await ask(replicas.url(2), `/admin/keys/${id}`, { method: 'DELETE', headers: other })
    expect(revoked.status, revoked.text).toBeLessThan(300)
    expect(await statusesBecome(401)).toEqual([401, 401, 401])
  })

  it('MCP: a session of an older revision is opened on one, used on another and ended on a third', async () => {
    const send = (url: string, body: object | undefined, session: Record<string, string> = {}) =>
      ask(url, '/mcp', {
        method: body === undefined ? 'DELETE' : 'POST',
        headers: { accept: 'application/json, text/event-stream', ...session },
        ...(body === undefined ? {} : { body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...body }) }),
      })
    const params = {
      protocolVersion: '2025-06-18',
      capabilities: {},
      clientInfo: { name: 'c', version: '1' },
    }
    const opened = await send(replicas.url(0), { method: 'initialize', params })
    const session = {
      'mcp-session-id': opened.headers.get('mcp-session-id') ?? '',
      'mcp-protocol-version': '2025-06-18',
    }
    const call = { method: 'tools/call', params: { name: 'Kit_Write', arguments: { name: 'by mcp' } } }
    expect((await send(replicas.url(1), call, session)).text).toContain('by mcp is done')
    expect((await send(replicas.url(2), undefined, session)).status).toBeLessThan(300)
    expect((await send(replicas.url(0), call, session)).status).toBe(404)
  })
})

function tokenOf(index: number): string {
  const server = replicas.servers[index]
  if (server === undefined) throw new Error('no such server')
  return server.startTokenFile
}
