import { isJsonObject } from '#kernel/base/json'
import { html, pageReply } from '#protocols/html-page'
import { type HttpReply, type HttpRequest, type HttpRoute, isForPerson } from '#protocols/http-exchange'
import { isJsonRpcId, JSON_RPC_CODES } from '#protocols/json-rpc'
import {
  type Answer,
  errorAnswer,
  headerOf,
  isNewVersionHeader,
  NO_ANSWER,
  resultAnswer,
} from '#protocols/mcp/codec-message'
import type { McpExchange } from '#protocols/mcp/exchange'
import {
  ACCEPTED,
  type Accepted,
  exchangeOf,
  HttpChannel,
  type PostedMessage,
  readAccept,
  refusal,
  refuseMessage,
  runMethod,
  type SessionRevisions,
  STREAM_HEADERS,
  toReply,
} from '#protocols/mcp/http'
import type { Methods } from '#protocols/mcp/methods'
import { observeRequest } from '#protocols/mcp/operations'
import { ChangeStreams, MAX_STREAMS } from '#protocols/mcp/streams'
import {
  HEADERS,
  isLegacyRevision,
  type Message,
  NEW_REVISION,
  type RequestMessage,
} from '#protocols/mcp/wire'
import { type ClientSession, ClientSessions, RunningRequests, readInitialize } from './sessions.ts'

/*
 * Revisions 2025-06-18 and 2025-11-25 over HTTP: `initialize`, requests inside a session, the stream of
 * changes (GET) and the end of a session (DELETE).
 * `mcp/http.ts` passes it the messages of these revisions.
 * Invariant: a session is used only by the principal that opened it (MCP-94).
 */

export function openSessionRevisions(methods: Methods): SessionRevisions {
  const { gateway, callers, clock, log } = methods.services
  const parts: SessionParts = {
    methods,
    sessions: new ClientSessions(callers, clock),
    running: new RunningRequests({ callers, clock, log }),
    streams: new ChangeStreams(gateway.catalogChanges, methods.openStreams),
  }
  methods.subscriptions.deliver = (sessionId, json) => parts.streams.send(sessionId, json)
  return {
    routes(path) {
      const shared = { path, access: 'authenticated', body: 'never', refuse: refuseMessage } as const
      return [
        { ...shared, method: 'GET', handle: (request) => handleGet(request, parts) },
        { ...shared, method: 'DELETE', handle: (request) => handleDelete(request, parts) },
      ] satisfies HttpRoute[]
    },
    answer: (posted, accepted) =>
      posted.message.method === 'initialize'
        ? initialize(posted, parts)
        : answerInSession(posted, accepted, parts),
    accept: (posted) => acceptMessage(posted, parts),
    close() {
      parts.streams.close()
      parts.running.close()
    },
  }
}

interface SessionParts {
  readonly methods: Methods
  readonly sessions: ClientSessions
  readonly running: RunningRequests
  readonly streams: ChangeStreams
}

async function handleGet(request: HttpRequest, parts: SessionParts): Promise<HttpReply> {
  const session = await findStreamSession(request, parts)
  if ('status' in session) return session
  if (!readAccept(request.headers).stream)
    return refuseSession(406, 'This stream is text/event-stream; accept it.')
  const { principal } = request
  const { subscriptions, services } = parts.methods
  const body = parts.streams.open(principal, session.id, {
    isOpen: async () => (await parts.sessions.find(principal, session.id)) !== undefined,
    onOpened: () => {
      subscriptions
        .streamOpened(session.id, streamExchange(request, session))
        .catch((err: unknown) =>
          services.log.warn({ err }, 'cannot resume the subscriptions of an MCP session'),
        )
    },
    onClosed: () => subscriptions.streamClosed(session.id),
  })
  if (body === undefined)
    return refuseSession(429, `This caller already has ${MAX_STREAMS} open streams. Close one first.`)
  return { status: 200, headers: STREAM_HEADERS, body }
}

/** When a stream opens, the session's subscriptions resume with the credentials of its request. */
function streamExchange(
  { principal, headers, traceId, traceparent }: HttpRequest,
  { revision, capabilities, logLevel }: ClientSession,
): McpExchange {
  return {
    ...{ id: '', principal, headers, traceId, traceparent, revision, capabilities, logLevel },
    channel: { canSend: false, send: () => undefined },
    leaving: undefined,
  }
}

async function handleDelete(request: HttpRequest, parts: SessionParts): Promise<HttpReply> {
  const session = await findStreamSession(request, parts)
  if ('status' in session) return session
  await parts.sessions.end(request.principal, session.id)
  parts.methods.subscriptions.ended(session.id)
  parts.streams.end(session.id)
  return { status: 204, headers: {}, body: undefined }
}

async function findStreamSession(
  request: HttpRequest,
  { sessions }: SessionParts,
): Promise<ClientSession | HttpReply> {
  const { method, headers, principal } = request
  const id = headerOf(headers, HEADERS.session)
  const hasSession = id !== undefined && !isNewVersionHeader(headerOf(headers, HEADERS.version))
  if (!hasSession || method === 'HEAD') return noStream(request)
  return (
    (await sessions.find(principal, id)) ??
    refuseSession(404, 'There is no such session. Send initialize again.')
  )
}

const PURPOSE = 'This address is for MCP clients, which send their messages to it with POST.'

/** Clients of the newest revision try GET and continue without a stream; a person who opens the address gets a page. */
function noStream(request: HttpRequest): HttpReply {
  const headers = { allow: 'POST', vary: 'accept' }
  if (!isForPerson(request))
    return refuseSession(405, `${PURPOSE} Only sessions of older revisions use ${request.method}.`, headers)
  const content = html`<p>${PURPOSE} There is nothing here for a browser.</p>
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

/** Opens a session (MCP row 17). A second `initialize` in a session is refused (MCP-23). */
async function initialize(
  posted: PostedMessage<RequestMessage>,
  { methods, sessions }: SessionParts,
): Promise<HttpReply> {
  const { request, message } = posted
  const { operations } = methods.services
  const { trace, ...exchange } = exchangeOf(request, message)
  const open = () => openSession(posted, { methods, sessions })
  if (operations === undefined || trace === undefined) return toReply(await open())
  const observed = { ...exchange, method: message.method, trace, revision: undefined, isKnown: true }
  return toReply(await observeRequest(operations, observed, open))
}

async function openSession(
  { request: { headers, principal }, message: { id, params } }: PostedMessage<RequestMessage>,
  { methods, sessions }: Pick<SessionParts, 'methods' | 'sessions'>,
): Promise<Answer> {
  const known = headerOf(headers, HEADERS.session)
  if (known !== undefined && (await sessions.find(principal, known)) !== undefined)
    return errorAnswer(
      id,
      { code: JSON_RPC_CODES.badRequest, message: 'This session is already initialized.' },
      { status: 400 },
    )
  const read = readInitialize(params)
  if (!read.ok) return errorAnswer(id, read.error)
  // A new session counts against the rate limit like a call.
  await methods.services.gateway.admit(principal)
  const session = await sessions.open(principal, read.revision, read.capabilities)
  return resultAnswer(id, methods.initializeResult(read.revision), { [HEADERS.session]: session.id })
}

/** Methods that make a call. The others are answered at once, so they need no cancellation (MCP-85). */
const CANCELLABLE: ReadonlySet<string> = new Set([
  'tools/call',
  'prompts/get',
  'resources/read',
  'completion/complete',
])

async function answerInSession(
  posted: PostedMessage<RequestMessage>,
  accepted: Accepted,
  { methods, sessions, running, streams }: SessionParts,
): Promise<HttpReply> {
  const { request, message } = posted
  const session = await findSession(posted, sessions)
  if ('status' in session) return session
  const { tenant } = request.principal
  const address = { tenant, session: session.id, requestId: JSON.stringify(message.id) }
  const started = CANCELLABLE.has(message.method) ? running.begin(address) : undefined
  const channel = new HttpChannel(accepted)
  const exchange: McpExchange = {
    ...exchangeOf(request, message),
    revision: session.revision,
    capabilities: session.capabilities,
    logLevel: session.logLevel,
    session: { id: session.id, hasStream: streams.has(session.id) },
    setLogLevel: (level) => sessions.setLogLevel(request.principal, session, level),
    channel,
    // A client that disconnects does not cancel the call (MCP-28).
    leaving: undefined,
    ...(started === undefined ? undefined : { onBegun: started.onBegun, onRecording: started.forget }),
  }
  const answer = async (): Promise<Answer> => {
    try {
      const made = await runMethod(methods, message, exchange)
      return started?.isCancelled === true ? NO_ANSWER : made
    } finally {
      started?.end()
    }
  }
  return await channel.reply(answer())
}

/** Notifications get no answer, and unknown ones are ignored (MCP-05, MCP-18). */
async function acceptMessage(
  posted: PostedMessage<Exclude<Message, RequestMessage>>,
  { methods, sessions, running }: SessionParts,
): Promise<HttpReply> {
  const { request, message } = posted
  const session = await findSession(posted, sessions)
  if ('status' in session) return session
  const { principal } = request
  if (message.kind === 'response') {
    await methods.calls.questions.deliverResponse(principal, message)
    return ACCEPTED
  }
  const requestId = isJsonObject(message.params) ? message.params.requestId : undefined
  if (message.method === 'notifications/cancelled' && isJsonRpcId(requestId))
    running.cancel({
      tenant: principal.tenant,
      session: session.id,
      requestId: JSON.stringify(requestId),
    })
  return ACCEPTED
}

/** The session of a message, or a refusal (MCP row 18). */
async function findSession(
  { request: { headers, principal }, message, version }: PostedMessage,
  sessions: ClientSessions,
): Promise<ClientSession | HttpReply> {
  const requestId = message.kind === 'request' ? message.id : undefined
  const refuse = (text: string, status?: number) =>
    refusal({ code: JSON_RPC_CODES.badRequest, message: text }, requestId, status)
  const id = headerOf(headers, HEADERS.session)
  if (version !== undefined && !isLegacyRevision(version))
    return refuse(
      `Unsupported MCP-Protocol-Version. Served: ${NEW_REVISION}, and in sessions 2025-11-25, 2025-06-18.`,
    )
  if (id === undefined)
    return refuse(
      'This request belongs to no session. Send an initialize request first and repeat the Mcp-Session-Id header of its answer, or send the protocol version in params._meta (revision 2026-07-28). See https://modelcontextprotocol.io/specification and docs/protocols/mcp.md.',
    )
  return (
    (await sessions.find(principal, id)) ?? refuse('There is no such session. Send initialize again.', 404)
  )
}
