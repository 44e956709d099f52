import { isToolError, storeFault } from '#kernel/base/errors'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import { unreadCallHeaders } from '#protocols/call-wire'
import { html, pageReply } from '#protocols/html-page'
import { type HttpReply, type HttpRequest, type HttpRoute, isForPerson } from '#protocols/http-exchange'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import type { ServedProtocol } from '#protocols/protocol'
import { KeyedCounter } from '#stages/limits/limits'
import {
  type Answer,
  checkStandardHeaders,
  decodeMessage,
  errorAnswer,
  headerOf,
  isNewVersionHeader,
  META_MISSING,
  NO_ANSWER,
  type RequestHeaders,
  type RequestMeta,
  readMeta,
  resultAnswer,
} from './codec-message.ts'
import {
  HttpChannel,
  laterAnswer,
  type McpExchange,
  type McpServices,
  readInitialize,
  STREAM_HEADERS,
  toReply,
  unsupportedVersion,
} from './exchange.ts'
import {
  type LegacySession,
  LegacySessions,
  RequestsUnderWay,
  takeNotification,
  takeResponse,
} from './legacy.ts'
import { Methods } from './methods.ts'
import { ChangeStreams, MAX_STREAMS } from './streams.ts'
import {
  HEADERS,
  isLegacyRevision,
  JSON_TYPE,
  MCP_CODES,
  MCP_PATH,
  type Message,
  NEW_REVISION,
  STREAM_TYPE,
  type WireError,
} from './wire.ts'

/**
 * MCP over Streamable HTTP: 2025-06-18 and 2025-11-25 with sessions, 2026-07-28 without. Closing ends the open streams,
 * so that no client waits for a server that goes (MCP-49).
 */
export function serveMcp(services: McpServices): Required<ServedProtocol> {
  const { gateway, callers, clock, log } = services
  const openStreams = new KeyedCounter()
  const parts: HttpParts = {
    methods: new Methods(services, openStreams),
    sessions: new LegacySessions(callers, clock),
    underWay: new RequestsUnderWay({ callers, clock, log }),
    streams: new ChangeStreams(gateway.catalogChanges, openStreams),
  }
  return {
    // Below the path of all tools one for each toolset, which the server finds the caller's part of.
    routes: [MCP_PATH, `${MCP_PATH}/:toolset`].flatMap((path) => [
      postRoute(path, parts),
      ...sessionRoutes(path, parts),
    ]),
    close() {
      parts.methods.listens.close()
      parts.streams.close()
      parts.underWay.close()
    },
  }
}

/** `GET` and `DELETE` on `/mcp` exist in sessions of older revisions only (MCP row 2, MCP-24 to MCP-26). */
function sessionRoutes(path: string, parts: HttpParts): readonly HttpRoute[] {
  const shared = { path, access: 'authenticated', body: 'never', refuse: refuseMessage } as const
  return [
    { ...shared, method: 'GET', handle: (request) => handleGet(request, parts) },
    { ...shared, method: 'DELETE', handle: (request) => handleDelete(request, parts) },
  ]
}

async function handleGet(request: HttpRequest, parts: HttpParts): Promise<HttpReply> {
  const session = await findStreamSession(request, parts)
  if ('status' in session) return session
  if (!readAccept(request.headers).stream)
    return refuseSession(406, 'This stream is text/event-stream; accept it.')
  const { principal } = request
  const isOpen = async (): Promise<boolean> =>
    (await parts.sessions.find(principal, session.id)) !== undefined
  const body = parts.streams.open(principal, session.id, isOpen)
  if (body === undefined)
    return refuseSession(429, `This caller listens ${MAX_STREAMS} times already. Close a stream first.`)
  return { status: 200, headers: STREAM_HEADERS, body }
}

async function handleDelete(request: HttpRequest, parts: HttpParts): Promise<HttpReply> {
  const session = await findStreamSession(request, parts)
  if ('status' in session) return session
  await parts.sessions.end(request.principal, session.id)
  parts.streams.end(session.id)
  return { status: 204, headers: {}, body: undefined }
}

async function findStreamSession(
  request: HttpRequest,
  { sessions }: HttpParts,
): Promise<LegacySession | HttpReply> {
  const { method, headers, principal } = request
  const id = headerOf(headers, HEADERS.session)
  const isLegacy = id !== undefined && !isNewVersionHeader(headerOf(headers, HEADERS.version))
  if (!isLegacy || method === 'HEAD') return noStream(request)
  return (
    (await sessions.find(principal, id)) ??
    refuseSession(404, 'There is no such session. Send initialize again.')
  )
}

const WHAT_FOR = 'This address is for MCP clients, which send it their messages with POST.'

/** A client of today asks whether there is a stream, and goes on without it; a person who opens the address learns what it is for. */
function noStream(request: HttpRequest): HttpReply {
  const headers = { allow: 'POST', vary: 'accept' }
  if (!isForPerson(request))
    return refuseSession(405, `${WHAT_FOR} Only sessions of older revisions use ${request.method}.`, headers)
  const content = html`<p>${WHAT_FOR} There is nothing here for a browser.</p>
<p>To connect a client, give it this address, or run <code>collet connect CLIENT</code> where the server runs: it prints or writes the configuration for Claude, Cursor, VS Code and others.</p>
<p><a href="${request.params.toolset === undefined ? './' : '../'}">The start page of this server</a> has the addresses of the other protocols.</p>`
  return pageReply(405, { title: 'An address for MCP clients', content }, headers)
}

function refuseSession(
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  return toReply(errorAnswer(undefined, { code: JSON_RPC_CODES.badRequest, message }, { status, headers }))
}

type RequestMessage = Message & { readonly kind: 'request' }

const ACCEPTED: HttpReply = { status: 202, headers: {}, body: undefined }

/** `POST /mcp`: which era a message is of, and what becomes of it (MCP §1.1, MCP rows 7 to 18). */
function postRoute(path: string, parts: HttpParts): HttpRoute {
  return {
    method: 'POST',
    path,
    access: 'authenticated',
    body: 'json',
    handle: (request) => handlePost(request, parts),
    refuse: refuseMessage,
  }
}

function handlePost(request: HttpRequest, parts: HttpParts): HttpReply | Promise<HttpReply> {
  if (request.body === undefined) {
    const error = { code: JSON_RPC_CODES.unreadable, message: 'The body is empty; send a JSON-RPC message.' }
    return refusal(error, undefined)
  }
  const decoded = decodeMessage(request.body)
  if (!decoded.ok) return refusal(decoded.error, decoded.id)
  const { message } = decoded
  const version = headerOf(request.headers, HEADERS.version)
  if (message.kind === 'request') {
    const accepted = readAccept(request.headers)
    if (!accepted.json && !accepted.stream) {
      const error = {
        code: JSON_RPC_CODES.badRequest,
        message: 'Accept application/json or text/event-stream.',
      }
      return toReply(errorAnswer(message.id, error, { status: 406 }))
    }
    return handleRequest(message, { request, version, accepted }, parts)
  }
  return handleOther(message, { request, version }, parts)
}

/** What gets no answer: notifications, and responses to questions of ours. */
async function handleOther(
  message: Exclude<Message, RequestMessage>,
  { request, version }: Omit<Asked, 'accepted'>,
  parts: HttpParts,
): Promise<HttpReply> {
  const isNew = isNewVersionHeader(version)
  if (message.kind === 'notification') {
    // MCP row 15: no notification travels over HTTP in the newest revision.
    if (isNew || readMeta(message.params).kind !== 'none') return ACCEPTED
  } else if (isNew) {
    const error = { code: JSON_RPC_CODES.badRequest, message: 'This revision has no responses of clients.' }
    return refusal(error, undefined)
  }
  const session = await findSession(request, version, parts)
  if ('status' in session) return session
  if (message.kind === 'notification') takeNotification(parts, request.principal, session, message)
  else await takeResponse(parts, request.principal, message)
  return ACCEPTED
}

interface Asked {
  readonly request: HttpRequest
  /** `MCP-Protocol-Version`, if it was sent. */
  readonly version: string | undefined
  readonly accepted: Accepted
}

function handleRequest(
  message: RequestMessage,
  asked: Asked,
  parts: HttpParts,
): HttpReply | Promise<HttpReply> {
  const read = readMeta(message.params)
  if (read.kind === 'bad') return refusal(read.error, message.id)
  if (read.kind === 'meta') return handleNew(message, read.meta, asked, parts)
  if (isNewVersionHeader(asked.version)) return refusal(META_MISSING, message.id)
  const reply =
    message.method === 'initialize'
      ? handleInitialize(message, asked.request, parts)
      : handleLegacy(message, asked, parts)
  return reply.catch((error: unknown) => askToRepeat(message, error, parts))
}

/** MCP-20: sessions are in the store; while that is away, the request is told so under its id. */
function askToRepeat({ id, method }: RequestMessage, error: unknown, { methods }: HttpParts): HttpReply {
  const away = isToolError(error) ? error : storeFault(error)
  if (away === undefined) throw error
  if (error !== away) methods.outage.report({ err: error, method }, 'an MCP request could not be taken')
  return toReply(laterAnswer(id, away))
}

/** MCP rows 10 to 14: the body decides, the headers only repeat it. */
function handleNew(
  message: RequestMessage,
  { version: claimed, capabilities }: RequestMeta,
  { request, version, accepted }: Asked,
  parts: HttpParts,
): HttpReply | Promise<HttpReply> {
  const { id, method, params } = message
  const mismatch = (text: string) => refusal({ code: MCP_CODES.headerMismatch, message: text }, id)
  if (version !== undefined && version !== claimed)
    return mismatch('MCP-Protocol-Version does not match params._meta')
  if (claimed !== NEW_REVISION) return refusal(unsupportedVersion(claimed), id)
  const problem = checkStandardHeaders(request.headers, { method, name: nameOf(params) })
  if (problem !== undefined) return mismatch(problem)
  const channel = new HttpChannel(accepted)
  const exchange: McpExchange = {
    ...exchangeOf(request, message),
    revision: NEW_REVISION,
    capabilities,
    channel,
    leaving: request,
  }
  return channel.reply(parts.methods.run(method, params, exchange))
}

async function handleLegacy(
  message: RequestMessage,
  { request, version, accepted }: Asked,
  parts: HttpParts,
): Promise<HttpReply> {
  const session = await findSession(request, version, parts, message)
  if ('status' in session) return session
  const { principal } = request
  const address = { tenant: principal.tenant, session: session.id, requestId: JSON.stringify(message.id) }
  const underWay = message.method === 'tools/call' ? parts.underWay.begin(address) : undefined
  const channel = new HttpChannel(accepted)
  const exchange: McpExchange = {
    ...exchangeOf(request, message),
    revision: session.revision,
    capabilities: session.capabilities,
    channel,
    // A reader that leaves detaches; the call goes on (MCP-28).
    leaving: undefined,
    ...(underWay === undefined ? undefined : { onBegun: underWay.onBegun, onRecording: underWay.forget }),
  }
  const answer = async (): Promise<Answer> => {
    try {
      const made = await parts.methods.run(message.method, message.params, exchange)
      return underWay?.isCancelled === true ? NO_ANSWER : made
    } finally {
      underWay?.end()
    }
  }
  return await channel.reply(answer())
}

/** MCP row 17; a second one in a session is a mistake (MCP-23). */
async function handleInitialize(
  { id, params }: RequestMessage,
  { headers, principal }: HttpRequest,
  { methods, sessions }: HttpParts,
): Promise<HttpReply> {
  const known = headerOf(headers, HEADERS.session)
  if (known !== undefined && (await sessions.find(principal, known)) !== undefined) {
    return refusal({ code: JSON_RPC_CODES.badRequest, message: 'This session is initialized already.' }, id)
  }
  const read = readInitialize(params)
  if (!read.ok) return toReply(errorAnswer(id, read.error))
  // A session costs as a call does, and its principal has as many as it may.
  await methods.services.gateway.admit(principal)
  const session = await sessions.open(principal, read.revision, read.capabilities)
  return toReply(resultAnswer(id, methods.initializeResult(read.revision), { [HEADERS.session]: session.id }))
}

/** MCP row 18. */
async function findSession(
  { headers, principal }: HttpRequest,
  version: string | undefined,
  { sessions }: HttpParts,
  message?: RequestMessage,
): Promise<LegacySession | HttpReply> {
  const id = headerOf(headers, HEADERS.session)
  const bad = (text: string, status = 400) =>
    toReply(errorAnswer(message?.id, { code: JSON_RPC_CODES.badRequest, message: text }, { status }))
  if (version !== undefined && !isLegacyRevision(version))
    return bad(
      `Unsupported MCP-Protocol-Version. Served: ${NEW_REVISION}, and in sessions 2025-11-25, 2025-06-18.`,
    )
  if (id === undefined)
    return bad(
      'This request belongs to no session. Send an initialize request first and repeat the Mcp-Session-Id header of its answer, or send the protocol version in params._meta (revision 2026-07-28). See https://modelcontextprotocol.io/specification and docs/protocols/mcp.md.',
    )
  const session = await sessions.find(principal, id)
  return session ?? bad('There is no such session. Send initialize again.', 404)
}

function exchangeOf(request: HttpRequest, { id }: RequestMessage) {
  const { principal, headers, traceId, traceparent } = request
  return { id, principal, headers, traceId, traceparent }
}

function nameOf(params: JsonValue | undefined): JsonValue | undefined {
  return isJsonObject(params) ? params.name : undefined
}

function refusal(error: WireError, id: RequestMessage['id'] | undefined): HttpReply {
  return toReply(errorAnswer(id, error, { status: 400 }))
}

const UNSUPPORTED_TYPE = 415

/** What failed before a message was read: always JSON-RPC, never with an id (MCP rows 1 and 3 to 6, MCP-04). */
const refuseMessage: HttpRoute['refuse'] = (request, error, suggested) => {
  const { headers, method } = request
  const isTyped = headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase() === JSON_TYPE
  const isUnread = suggested === 400 && error.code === 'request_invalid'
  const status = isUnread && !isTyped ? UNSUPPORTED_TYPE : statusOf(error.code, suggested)
  const code = codeOf(status, error.code)
  return toReply(
    errorAnswer(
      undefined,
      { code, message: error.message },
      {
        status,
        headers: {
          ...(method === 'POST' ? unreadCallHeaders(headers, error.code) : {}),
          ...(status === 405 ? { allow: 'POST' } : {}),
          ...(error.retryAfterMs === undefined
            ? {}
            : { 'retry-after': String(Math.max(1, Math.ceil(error.retryAfterMs / 1_000))) }),
        },
      },
    ),
  )
}

function statusOf(code: string, suggested: number): number {
  return code === 'internal' ? 500 : suggested
}

/** MCP §1.5: codes of our own are the HTTP status. */
function codeOf(status: number, code: string): number {
  if (code === 'internal') return JSON_RPC_CODES.internal
  if (status === 400) return JSON_RPC_CODES.unreadable
  return status === 413 || status === UNSUPPORTED_TYPE ? JSON_RPC_CODES.badRequest : status
}

export interface Accepted {
  readonly json: boolean
  readonly stream: boolean
}

/** What every client must send; looked at first, because it is what comes. */
const USUAL = 'application/json, text/event-stream'
const BOTH: Accepted = { json: true, stream: true }

/** MCP-14, MCP/T-5: lenient where the standard is silent; nothing said means both. */
function readAccept({ accept }: RequestHeaders): Accepted {
  if (accept === undefined || accept === USUAL || accept.trim() === '') return BOTH
  const types = accept.split(',').map((type) => type.split(';', 1)[0]?.trim().toLowerCase())
  if (types.includes('*/*')) return BOTH
  return {
    json: types.includes(JSON_TYPE) || types.includes('application/*'),
    stream: types.includes(STREAM_TYPE) || types.includes('text/*'),
  }
}

/** What the routes share. */
interface HttpParts {
  readonly methods: Methods
  readonly sessions: LegacySessions
  readonly underWay: RequestsUnderWay
  readonly streams: ChangeStreams
}
