import { setTimeout as wait } from 'node:timers/promises'
import { z } from 'zod'
import { API_KEY } from './soak-project.ts'

/** One action of a client over one protocol. Throws if the answer is wrong. */
type Act = (at: Client, turn: number) => Promise<void>

/** Observations of a client. */
export interface Seen {
  readonly act: string
  readonly ms: number
  readonly atMs: number
}

const LIMIT_MS = 60_000
const CLAIM = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
}

/** One server with many clients. */
export class Client {
  readonly #url: string
  /** Ids of imported tools. */
  readonly #imported: string[] = []

  constructor(url: string) {
    this.#url = url
  }

  async ask(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
    signal?: AbortSignal,
  ) {
    return await fetch(`${this.#url}${path}`, {
      method,
      headers: {
        'x-api-key': API_KEY,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.any([AbortSignal.timeout(LIMIT_MS), ...(signal === undefined ? [] : [signal])]),
    })
  }

  /** The text of an answer that must have this status. */
  async expect(status: number, ...asked: Parameters<Client['ask']>): Promise<string> {
    const response = await this.ask(...asked)
    const text = await response.text()
    if (response.status === status) return text
    throw new Error(
      `${asked[0]} ${asked[1]}: expected ${status}, got ${response.status} ${text.slice(0, 300)}`,
    )
  }

  /** A call over OTC that must succeed. */
  async call(
    tool: string,
    callId: string,
    text: string,
    headers: Record<string, string> = {},
  ): Promise<void> {
    const body = { request: { tool_id: tool, call_id: callId, input: { text } } }
    const answer = await this.expect(200, 'POST', '/tools/call', body, headers)
    if (!answer.includes('"success":true')) throw new Error(`${tool}: ${answer.slice(0, 300)}`)
  }

  /** Tools of sources, once they are served. */
  async imported(): Promise<readonly string[]> {
    for (let tries = 0; this.#imported.length === 0 && tries < 100; tries += 1) {
      const list = TOOLS.parse(JSON.parse(await this.expect(200, 'GET', '/tools')))
      const says = list.tools.map(({ id }) => id).filter((id) => /^(Mcp|Otc|Opentool)\..*Say/.test(id))
      if (says.length >= 3) this.#imported.push(...says)
      else await wait(200)
    }
    if (this.#imported.length === 0) throw new Error('The tools of the sources were not served in time.')
    return this.#imported
  }
}

const TOOLS = z.object({ tools: z.array(z.object({ id: z.string() })) })
const SESSION = z.object({ sessionId: z.string() })

const ACTS: Readonly<Record<string, Act>> = {
  'OTC, new key': (at, turn) => at.call('Soak.Keep', `k${turn}`, 'x'.repeat(turn % 2_000)),
  'OTC, replay': (at, turn) => at.call('Soak.Keep', `replay${turn % 50}`, 'again'),
  async 'OTC, refused'(at, turn) {
    await at.expect(422, 'POST', '/tools/call', {
      request: { tool_id: 'Soak.Say', call_id: `r${turn}`, input: { text: turn } },
    })
  },
  async 'OTC, caller leaves'(at, turn) {
    const leave = new AbortController()
    const body = { request: { tool_id: 'Soak.Keep', call_id: `l${turn}`, input: { text: 'left' } } }
    const asked = at.ask('POST', '/tools/call', body, {}, leave.signal).catch(() => undefined)
    await wait(turn % 5)
    leave.abort()
    await asked
  },
  async OpenTool(at, turn) {
    const body = { jsonrpc: '2.0', method: 'Soak_Say', params: { text: `${turn}` }, id: turn }
    const text = await at.expect(200, 'POST', '/opentool/call', body)
    if (!text.includes('"error":null')) throw new Error(text)
  },
  async 'MCP 2026-07-28'(at, turn) {
    const params = { name: 'Soak_Say', arguments: { text: `${turn}` }, _meta: CLAIM }
    await at.expect(
      200,
      'POST',
      '/mcp',
      { jsonrpc: '2.0', id: turn, method: 'tools/call', params },
      modern('Soak_Say'),
    )
  },
  async 'MCP 2025-11-25, whole session'(at, turn) {
    const accept = { accept: 'application/json, text/event-stream' }
    const hello = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'soak', version: '1' },
    }
    const opened = await at.ask(
      'POST',
      '/mcp',
      { jsonrpc: '2.0', id: 0, method: 'initialize', params: hello },
      accept,
    )
    await opened.text()
    const session = {
      ...accept,
      'mcp-session-id': `${opened.headers.get('mcp-session-id')}`,
      'mcp-protocol-version': '2025-11-25',
    }
    await at.expect(202, 'POST', '/mcp', { jsonrpc: '2.0', method: 'notifications/initialized' }, session)
    const params = { name: 'Soak_Say', arguments: { text: `${turn}` } }
    await at.expect(200, 'POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params }, session)
    await (await at.ask('DELETE', '/mcp', undefined, session)).text()
  },
  async 'openwop, session'(at, turn) {
    const opened = await at.expect(201, 'POST', '/v1/sessions', { toolId: 'openwop:Soak.Count' })
    const { sessionId } = SESSION.parse(JSON.parse(opened))
    for (const n of [1, 2]) await at.call('Soak.Count', `s${turn}-${n}`, 'n', { 'collet-session': sessionId })
    await at.expect(204, 'DELETE', `/v1/sessions/${sessionId}`)
  },
  async 'openwop, run over SSE'(at, turn) {
    const run = { 'collet-run': `run-${turn}` }
    await at.call('Soak.Keep', `e${turn}-0`, 'first', run)
    const stream = await at.ask('GET', `/v1/runs/run-${turn}/events`)
    for (const n of [1, 2]) await at.call('Soak.Keep', `e${turn}-${n}`, 'more', run)
    await at.expect(204, 'DELETE', `/v1/runs/run-${turn}`)
    const events = (await stream.text()).match(/^id: /gm)?.length
    if (events !== 6) throw new Error(`run-${turn} sent ${events} events over SSE, not 6`)
  },
  async source(at, turn) {
    const tools = await at.imported()
    await at.call(tools[turn % tools.length] ?? '', `u${turn}`, 'through')
  },
  async lists(at) {
    await at.expect(200, 'GET', '/tools')
    await at.expect(200, 'GET', '/opentool/load')
    await at.expect(
      200,
      'POST',
      '/mcp',
      { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: CLAIM } },
      modern(),
    )
  },
}

function modern(name?: string): Record<string, string> {
  return {
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    ...(name === undefined
      ? { 'mcp-method': 'tools/list' }
      : { 'mcp-method': 'tools/call', 'mcp-name': name }),
  }
}

/** Slightly more than the cache of decrypted texts keeps (`MAX_BYTES` in `store/journal.ts`). */
const OPENED_BYTES = 1.2 * 16 * 1_048_576
const LONG_TEXT = 'x'.repeat(500_000)

/**
 * Fills the one cache that the load fills slowly: that would take most of an hour and look like a leak. Long texts fill it at
 * once, and are evicted by short ones from then on.
 */
export async function fillCaches(at: Client): Promise<void> {
  const ids = Array.from({ length: Math.ceil(OPENED_BYTES / LONG_TEXT.length) }, (_, index) => `fill${index}`)
  // Once to write it, once to read it back.
  for (const id of [...ids, ...ids]) await at.call('Soak.Keep', id, LONG_TEXT)
}

/** Acts at a steady rate until it is stopped; a slow action does not delay the others. */
export async function keepActing(
  at: Client,
  {
    perSecond,
    stop,
    seen,
  }: { readonly perSecond: number; readonly stop: AbortSignal; readonly seen: Seen[] },
): Promise<void> {
  const names = Object.keys(ACTS)
  const startedMs = performance.now()
  const under = new Set<Promise<void>>()
  let failure: unknown
  for (let turn = 0; !stop.aborted && failure === undefined; turn += 1) {
    const name = names[turn % names.length] ?? ''
    const [beganMs, acting] = [performance.now(), ACTS[name]?.(at, turn) ?? Promise.resolve()]
    const one: Promise<void> = acting
      .then(() => void seen.push({ act: name, ms: performance.now() - beganMs, atMs: beganMs }))
      .catch((error: unknown) => {
        failure ??= new Error(`${name}: ${String(error)}`, { cause: error })
      })
      .finally(() => under.delete(one))
    under.add(one)
    // A machine that cannot keep up gets fewer requests.
    if (under.size > perSecond) await Promise.race(under)
    await wait(Math.max(0, startedMs + ((turn + 1) * 1_000) / perSecond - performance.now()))
  }
  await Promise.all(under)
  if (failure !== undefined) throw failure
}
