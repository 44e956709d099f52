import type { RequestHeaders } from '#auth/authenticator'
import type { Clock } from '#kernel/base/clock'
import { fault, isToolError, type ToolError } from '#kernel/base/errors'
import type { Principal } from '#kernel/base/principal'
import type { Release } from '#kernel/call/stages'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import type { ServerRoute } from '#server/http/router'
import { adminRoute, momentOf, type OperatorAccess, tenantWithin } from './access.ts'
import type { CallFeed, CallReader, ChangedCall, FeedPage } from './call-feed.ts'
import { type BaseOf, readCallFilter } from './call-filter.ts'

const SCOPE = 'admin:calls'
/** A quiet stream says so this often, and whether the credential still lets its reader in is asked as often. */
const LOOK_MS = 2_000

interface CallEventsOptions {
  readonly feed: CallFeed
  readonly clock: Clock
  /** For a request that is held open; throws when there are too many. */
  enter?(principal: Principal): Release
  /** The headers of a browser with the credential of its session, as it is now. */
  present?(headers: RequestHeaders): Promise<RequestHeaders>
  readonly baseOf?: BaseOf
}

/**
 * `GET /admin/calls/events`: calls as they begin, wait, end and are settled, as `text/event-stream`. Filters are those of
 * the list, and `Last-Event-ID` goes on where a reader stopped, on any server. First comes `ready`, then `calls`;
 * `end` says why there is no more.
 */
export function createCallEventRoutes(
  {
    feed,
    clock,
    baseOf,
    enter = () => () => undefined,
    present = async (headers) => headers,
  }: CallEventsOptions,
  access: OperatorAccess,
): readonly ServerRoute[] {
  const follow = async (request: HttpRequest): Promise<HttpReply> => {
    const { principal, headers, query, method } = request
    access.requireScope(principal, SCOPE)
    const { before: _before, limit: _limit, ...asked } = readCallFilter(query, clock.nowMs(), baseOf)
    const filter = { ...asked, tenant: tenantWithin(principal) ?? asked.tenant }
    const reply = {
      status: 200,
      headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
    }
    // A stream of which only the head is asked for has no end to wait for.
    if (method === 'HEAD') return { ...reply, body: undefined }
    const leave = enter(principal)
    try {
      const reader = await feed.open(filter, headers['last-event-id'] ?? query.get('after') ?? undefined)
      const refused = async () => await whyRefused(access, principal, () => present(headers))
      return { ...reply, body: (ended) => frames({ reader, leave, refused, ended, clock }) }
    } catch (error) {
      leave()
      throw error
    }
  }
  return [adminRoute(access, 'GET', '/admin/calls/events', follow)]
}

/** Why the reader would not be let in any more: its key was revoked, its session is over, its scopes are others. */
async function whyRefused(
  access: OperatorAccess,
  principal: Principal,
  present: () => Promise<RequestHeaders>,
): Promise<ToolError | undefined> {
  try {
    const now = await access.authenticate(await present())
    access.requireScope(now, SCOPE)
    return tenantWithin(now) === tenantWithin(principal) ? undefined : notTheSame()
  } catch (error) {
    if (isToolError(error)) return error
    throw error
  }
}

function notTheSame(): ToolError {
  return fault('unauthenticated', 'This credential is for another tenant now.')
}

interface Following {
  readonly reader: CallReader
  readonly leave: Release
  readonly refused: () => Promise<ToolError | undefined>
  readonly ended: AbortSignal
  readonly clock: Clock
}

async function* frames({ reader, leave, refused, ended, clock }: Following): AsyncGenerator<string> {
  try {
    yield frame('ready', `{"missed":${reader.hasMissed}}`, reader.cursor)
    let lookedAtMs = clock.monotonicMs()
    while (!ended.aborted) {
      const page = await reader.take(LOOK_MS, ended)
      if (clock.monotonicMs() - lookedAtMs >= LOOK_MS) {
        const refusal = await refused()
        if (refusal !== undefined) {
          yield endFrame(refusal)
          return
        }
        lookedAtMs = clock.monotonicMs()
      }
      if (page.changed.length + page.left.length > 0) yield pageFrame(page)
      else if (reader.ended !== undefined) {
        yield endFrame(reader.ended)
        return
      } else yield `${idLine(page.cursor)}: keep-alive\n\n`
    }
  } finally {
    reader.leave()
    leave()
  }
}

function pageFrame({ changed, left, cursor }: FeedPage): string {
  const calls = changed.map(textOf).join(',')
  return frame('calls', `{"calls":[${calls}],"left":${JSON.stringify(left)}}`, cursor)
}

function endFrame({ code, message }: ToolError): string {
  return frame('end', JSON.stringify({ code, message }))
}

function frame(event: string, data: string, id?: string): string {
  return `${idLine(id)}event: ${event}\ndata: ${data}\n\n`
}

/** Also of a stream on which nothing happens: what others do meanwhile need not be looked through again. */
function idLine(id: string | undefined): string {
  return id === undefined ? '' : `id: ${id}\n`
}

/** A call that changed, as readers get it. */
export type RenderedChange = ReturnType<typeof renderChange>

function renderChange({ call, events, code, by }: ChangedCall) {
  const { createdAtMs, finishedAtMs } = call
  return {
    record: call.record,
    tenant: call.tenant,
    principal: call.principal,
    ...(by === undefined ? {} : { by }),
    tool: call.tool,
    safety_tier: call.tier,
    state: call.state,
    attempt: call.attempt,
    parent: call.parent ?? null,
    created_at: new Date(createdAtMs).toISOString(),
    finished_at: momentOf(finishedAtMs),
    took_ms: finishedAtMs === undefined ? null : finishedAtMs - createdAtMs,
    ran_ms: call.ranMs ?? null,
    error_code: code ?? null,
    /** What happened to it, in order. */
    events,
  }
}

/** Every reader is told the same: its text is made once. */
const texts = new WeakMap<ChangedCall, string>()

function textOf(change: ChangedCall): string {
  const text = texts.get(change) ?? JSON.stringify(renderChange(change))
  texts.set(change, text)
  return text
}
