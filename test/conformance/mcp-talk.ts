import { rmSync } from 'node:fs'
import type { Settings } from '#config/settings'
import { CatalogChanges } from '#kernel/tool/catalog-changes'
import { requireTools } from '#kernel/tool/prepare-tools'
import { type RunningServer, startServer } from '#server/start-server'
import { sqliteSettings } from '../test-settings.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
type Json = any

const VERSION = '2026-07-28'
const META = 'io.modelcontextprotocol/'

export interface Talk {
  readonly server: RunningServer
  readonly changes: CatalogChanges
  readonly settings: Settings
  /** Another server on the same store. */
  another(): Promise<RunningServer>
}

const running: RunningServer[] = []
const folders = new Set<string>()

/** The complete server on SQLite, as `collet serve` starts it. */
export async function startTalk(tools: readonly object[], changed: Partial<Settings> = {}): Promise<Talk> {
  const settings = sqliteSettings({ tools: requireTools(tools), ...changed })
  folders.add(settings.dataFolder)
  const changes = new CatalogChanges()
  const start = async (): Promise<RunningServer> => {
    const server = await startServer(settings, { graceMs: 0, catalogChanges: changes })
    running.push(server)
    return server
  }
  return { server: await start(), changes, settings, another: start }
}

export async function endTalks(): Promise<void> {
  await Promise.all(running.splice(0).map((server) => server.close()))
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  folders.clear()
}

export interface Sent {
  readonly headers?: Record<string, string>
  readonly signal?: AbortSignal
}

/** `url` is that of the server, or of an MCP endpoint. */
export function post(url: string, body: object, { headers = {}, signal }: Sent = {}): Promise<Response> {
  return fetch(/\/mcp(?:\/|$)/.test(url) ? url : `${url}/mcp`, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  })
}

/** A request of the newest revision. */
export function ask(
  url: string,
  asked: {
    readonly id?: number | string
    readonly method: string
    readonly params?: object
    readonly meta?: object
    readonly capabilities?: object
  },
  sent: Sent = {},
): Promise<Response> {
  const { id = 1, method, params = {}, meta = {}, capabilities = {} } = asked
  const _meta = { [`${META}protocolVersion`]: VERSION, [`${META}clientCapabilities`]: capabilities, ...meta }
  const named = 'name' in params ? params.name : 'taskId' in params ? params.taskId : undefined
  const name = named === undefined ? {} : { 'Mcp-Name': String(named) }
  const headers = { 'MCP-Protocol-Version': VERSION, 'Mcp-Method': method, ...name, ...sent.headers }
  return post(url, { jsonrpc: '2.0', id, method, params: { ...params, _meta } }, { ...sent, headers })
}

/** Opens a session of an older revision; returns its id. */
export async function openSession(
  url: string,
  revision = '2025-11-25',
  capabilities: object = {},
): Promise<string> {
  const params = { protocolVersion: revision, capabilities, clientInfo: { name: 'c', version: '1' } }
  const response = await post(url, { jsonrpc: '2.0', id: 0, method: 'initialize', params })
  await response.text()
  return response.headers.get('mcp-session-id') ?? ''
}

/** Sends a message in a session of an older revision. */
export function inSession(url: string, session: string, message: object, sent: Sent = {}): Promise<Response> {
  return post(
    url,
    { jsonrpc: '2.0', ...message },
    { ...sent, headers: { 'Mcp-Session-Id': session, ...sent.headers } },
  )
}

/** The messages of a stream as they arrive, without comments. */
export async function* events(response: Response): AsyncGenerator<Json> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const data = /^data: (.*)$/m.exec(text.slice(0, end))?.[1]
      text = text.slice(end + 2)
      if (data !== undefined) yield JSON.parse(data)
    }
  }
}

export async function allOf(stream: AsyncGenerator<Json>): Promise<Json[]> {
  const all: Json[] = []
  for await (const message of stream) all.push(message)
  return all
}

export async function nextOf(stream: AsyncGenerator<Json>): Promise<Json> {
  const { value, done } = await stream.next()
  if (done === true) throw new Error('the stream ended')
  return value
}

/** The single answer, from a JSON body or a stream. */
export async function answerOf(response: Response): Promise<Json> {
  if (response.headers.get('content-type') === 'application/json') return await response.json()
  let last: Json
  for await (const message of events(response)) last = message
  return last
}
