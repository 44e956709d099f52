import { anyText, anyValue, bodyText, changed, type Random } from './random-input.ts'

/** One request of a client library; raw connections send what such a library refuses to send. */
export interface Sent {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** A route of the server. */
export interface Route {
  readonly method: string
  readonly path: string
}

export const KEY = 'fuzz-key-fuzz-key-fuzz-key-fuzz-key'

/** Names of objects that exist on the server. */
export type Living = readonly [string, ...string[]]

/** Requests of one protocol: valid ones with random changes, and some to each of its routes. */
export interface Lane {
  /** Which routes belong to this lane; other routes belong to the last lane. */
  owns(path: string): boolean
  /** A valid request with random changes. */
  craft(random: Random, living: Living): Sent
}

/**
 * The first lane that owns a route sends its requests, so that a new route is covered automatically. Pages come before
 * operators, who decide the approvals that the pages show.
 */
export const LANES: Readonly<Record<string, Lane>> = {
  pages: { owns: (path) => /^\/(?:approve|challenges|oauth)\//.test(path), craft: craftPage },
  MCP: { owns: (path) => path === '/mcp', craft: craftMcp },
  OpenTool: { owns: (path) => path.startsWith('/opentool/'), craft: craftOpenTool },
  openwop: {
    owns: (path) => path.startsWith('/v1/') || path.startsWith('/.well-known/'),
    craft: craftOpenwop,
  },
  operators: { owns: (path) => path.startsWith('/admin/') || path === '/metrics', craft: craftAdmin },
  OTC: { owns: () => true, craft: craftOtc },
}

/** The lane of a route. */
export function laneOf(path: string): string {
  return Object.keys(LANES).find((name) => LANES[name]?.owns(path)) ?? ''
}

/** A request to one route of the table: its method and path, with random parameters and a random body. */
export function toRoute(random: Random, { method, path }: Route, living: Living): Sent {
  const target = path.replace(/:[A-Za-z]+/g, () =>
    random.isLucky(0.6) ? encodeURIComponent(random.one(living)) : index(random),
  )
  if (method === 'GET' || method === 'DELETE') return get(random, target, method)
  return post(random, target, anyBody(random, living))
}

function craftOtc(random: Random, living: Living): Sent {
  const request = { call_id: `c${random.below(500)}`, tool_id: random.one(TOOL), input: INPUT, context: {} }
  const call = { $schema: 'urn:oxp:1.0', request }
  if (random.isLucky(0.8)) return post(random, '/tools/call', call)
  return get(
    random,
    random.one(['/tools', `/calls/${index(random)}`, `/calls/${random.one(living)}`, '/health']),
  )
}

function craftOpenwop(random: Random, living: Living): Sent {
  const id = random.isLucky(0.5) ? 'openwop:Echo.Count' : index(random)
  const known = random.isLucky(0.5) ? encodeURIComponent(random.one(living)) : index(random)
  if (random.isLucky(0.4)) return post(random, '/v1/sessions', { toolId: id, ttlSeconds: 1 })
  const path = random.one([
    ...(['/v1/tools', `/v1/tools/${id}`, `/v1/sessions/${known}`, '/.well-known/openwop'] as const),
    ...([`/v1/runs/${known}/events/poll`, `/v1/runs/${known}`, `/v1/runs/${known}/events`] as const),
  ])
  return get(random, path)
}

function craftOpenTool(random: Random): Sent {
  const method = random.one(['Echo_Say', 'Echo_Keep', 'Echo_Fail', 'Nobody'])
  const call = { jsonrpc: '2.0', method, params: INPUT, id: `o${random.below(500)}` }
  return post(random, random.one(['/opentool/call', '/opentool/streamCall']), call)
}

const MCP_METHODS = [
  ...(['tools/call', 'tools/list', 'initialize', 'ping', 'server/discover', 'resources/list'] as const),
  ...(['subscriptions/listen', 'notifications/cancelled', 'logging/setLevel', 'prompts/get'] as const),
] as const

/** A message of either era; the first methods are the supported ones. */
export function mcpMessage(random: Random) {
  const method = random.isLucky(0.7) ? random.one(['tools/call', 'tools/list']) : random.one(MCP_METHODS)
  const params = { name: random.one(['Echo_Say', 'Echo_Keep', 'x']), arguments: INPUT, _meta: CLAIM }
  return { method, params }
}

function craftMcp(random: Random): Sent {
  const { method, params } = mcpMessage(random)
  const message = { jsonrpc: '2.0', id: random.below(1_000), method, params }
  const headers = random.isLucky(0.7)
    ? { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, 'mcp-name': params.name }
    : { 'mcp-protocol-version': random.one(['2025-11-25', '2025-06-18', '1']) }
  const accept = { accept: 'application/json, text/event-stream' }
  return post(random, '/mcp', random.isLucky(0.1) ? [message, message] : message, { ...headers, ...accept })
}

function craftAdmin(random: Random): Sent {
  const lists = ['/admin/keys', '/admin/calls', '/admin/audit', '/admin/secrets', '/admin/pins'] as const
  if (random.isLucky(0.2)) return get(random, random.one([...lists, '/admin/sources', '/metrics']))
  const key = { principal: `p${random.below(50)}`, name: 'n', scopes: ['a'] }
  if (random.isLucky(0.3)) return post(random, '/admin/keys', key)
  return post(random, '/admin/secrets', { ...key, provider: 'github', value: 'v', kind: 'secret' })
}

function craftPage(random: Random, living: Living): Sent {
  // The link is the newest existing object.
  const token = encodeURIComponent(random.isLucky(0.5) ? `${living.at(-1)}` : random.one(living))
  const path = random.one([`/approve/${token}`, `/approve/${token}/approve`, `/challenges/${token}`])
  if (random.isLucky(0.6)) return get(random, path, 'GET')
  return get(random, `/oauth/callback?code=${index(random)}&state=${index(random)}`, 'GET')
}

function post(random: Random, path: string, value: unknown, more: Record<string, string> = {}): Sent {
  const body = bodyText(random, changed(random, value, random.one([0.005, 0.03, 0.15])))
  return { method: 'POST', path, headers: headersOf(random, more), body }
}

function get(random: Random, path: string, usual = 'GET'): Sent {
  const method = random.isLucky(0.75) ? usual : random.one(['GET', 'DELETE', 'HEAD', 'OPTIONS', 'PUT'])
  const query = `limit=${index(random)}&after=${index(random)}&${index(random)}=${index(random)}`
  return {
    method,
    path: random.isLucky(0.2) ? `${path}${path.includes('?') ? '&' : '?'}${query}` : path,
    headers: headersOf(random),
  }
}

function headersOf(random: Random, more: Readonly<Record<string, string>> = {}): Record<string, string> {
  const headers: Record<string, string> = { 'x-api-key': KEY, 'content-type': 'application/json', ...more }
  if (random.isLucky(0.05)) headers['content-type'] = sendable(anyText(random))
  if (random.isLucky(0.1)) headers[random.one(ODD_HEADERS)] = sendable(anyText(random))
  return headers
}

const ODD_HEADERS = [
  ...(['accept', 'prefer', 'idempotency-key', 'collet-run', 'collet-session', 'collet-secret'] as const),
  ...(['collet-user', 'collet-authorization', 'traceparent', 'last-event-id', 'mcp-session-id'] as const),
  ...(['mcp-protocol-version', 'mcp-method', 'mcp-name', 'if-none-match', 'origin', 'cookie'] as const),
  ...(['authorization', 'x-api-key', 'accept-encoding', 'content-encoding', 'expect', 'host'] as const),
] as const

function sendable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 2_000)
}

function index(random: Random): string {
  return encodeURIComponent(anyText(random).toWellFormed()).slice(0, 2_000)
}

const TOOL = ['Echo.Say', 'Echo.Keep', 'Echo.Fail', 'Echo.Say@1.0.0', 'Echo.Nobody'] as const
const INPUT = { text: 'hello', list: [1, 2, 3] }
const CLAIM = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'fuzz', version: '1.0.0' },
  'io.modelcontextprotocol/clientCapabilities': {},
}

/** Members that any route reads. */
const NAMES = [
  ...(['principal', 'name', 'scopes', 'roles', 'tools', 'outcome', 'value', 'kind', 'reason'] as const),
  ...(['provider', 'user', 'tenant', 'key', 'type', 'url', 'options', 'tool', 'digest', 'as'] as const),
  ...(['request', 'tool_id', 'input', 'call_id', 'context', 'toolId', 'ttlSeconds', 'sessionId'] as const),
  ...(['jsonrpc', 'id', 'method', 'params', 'action', 'decision', 'payload', 'approver', 'expires'] as const),
] as const

/** Members that a route may read, often with a value of the expected kind. */
function anyBody(random: Random, living: Living): unknown {
  if (random.isLucky(0.1)) return anyValue(random)
  return Object.fromEntries(
    Array.from({ length: random.below(7) }, () => {
      const way = random.below(4)
      const member = [random.one(living), [random.one(living)], INPUT, anyValue(random)][way]
      return [random.one(NAMES), member]
    }),
  )
}
