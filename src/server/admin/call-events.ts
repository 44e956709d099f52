/**
 * `GET /admin/calls/events`: calls as they begin, wait, end and are settled, as `text/event-stream`. It takes the filters of
 * `GET /admin/calls`. With `Last-Event-ID` a reader continues where it stopped, on any server of the store. The first event is `ready`,
 * followed by `calls`; `end` states why the stream ends. A stream also ends when the reader's credential becomes invalid.
 */
import { FOLLOW_ALL_CALLS, type ChangedCall as RenderedChange } from '#admin-api/calls'
import type { RequestHeaders } from '#auth/authenticator'
import type { Clock } from '#kernel/base/clock'
import { fault, isToolError, type ToolError } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { Release } from '#kernel/call/stages'
import { renderSummary } from '#server/calls/call-rows'
import type { ServerRoute } from '#server/http/router'
import { type OperatorAccess, visibleTenant } from './access.ts'
import { serveReply } from './admin-route.ts'
import type { CallFeed, CallReader, ChangedCall } from './call-feed.ts'
import { type BaseOf, toCallFilter } from './call-filter.ts'

/** Interval of heartbeats on a quiet stream, and of checks of the reader's credential. */
const CHECK_MS = 2_000

interface CallEventsOptions {
  readonly feed: CallFeed
  readonly clock: Clock
  /** Counts an open request; throws if there are too many. */
  enter?(principal: Principal): Release
  /** Returns a browser's headers with the current credential of its session. */
  present?(headers: RequestHeaders): Promise<RequestHeaders>
  readonly baseOf?: BaseOf
}

export function createCallEventRoutes(
  access: OperatorAccess,
  { feed, clock, baseOf, enter, present }: CallEventsOptions,
): readonly ServerRoute[] {
  return [
    serveReply(access, FOLLOW_ALL_CALLS, async ({ principal, query: { after, ...query }, http }) => {
      const requested = toCallFilter(query, clock.nowMs(), baseOf)
      const filter = { ...requested, tenant: visibleTenant(principal) ?? requested.tenant }
      const reply = { status: 200, headers: { 'content-type': 'text/event-stream' } }
      // The answer to HEAD has no body, so there is no stream to wait for.
      if (http.method === 'HEAD') return { ...reply, body: undefined }
      const leave = enter?.(principal)
      try {
        const reader = await feed.open(filter, http.headers['last-event-id'] ?? after)
        const findRefusal = async () =>
          await refusalOf(access, principal, (await present?.(http.headers)) ?? http.headers)
        return { ...reply, body: (ended) => frames({ reader, leave, findRefusal, ended, clock }) }
      } catch (error) {
        leave?.()
        throw error
      }
    }),
  ]
}

/** The error that a new request from the reader would get, because its key was revoked, its session ended, or its scopes changed. */
async function refusalOf(
  access: OperatorAccess,
  principal: Principal,
  headers: RequestHeaders,
): Promise<ToolError | undefined> {
  try {
    const now = await access.authenticate(headers)
    access.requireScope(now, 'admin:calls')
    if (visibleTenant(now) === visibleTenant(principal)) return undefined
    return fault('unauthenticated', 'This credential is for another tenant now.')
  } catch (error) {
    if (isToolError(error)) return error
    throw error
  }
}

interface FrameOptions {
  readonly reader: CallReader
  readonly leave: Release | undefined
  readonly findRefusal: () => Promise<ToolError | undefined>
  readonly ended: AbortSignal
  readonly clock: Clock
}

async function* frames({ reader, leave, findRefusal, ended, clock }: FrameOptions): AsyncGenerator<string> {
  try {
    yield frame('ready', `{"missed":${reader.hasGap}}`, reader.cursor)
    let checkedAtMs = clock.monotonicMs()
    while (!ended.aborted) {
      const { changed, left, cursor } = await reader.take(CHECK_MS, ended)
      if (clock.monotonicMs() - checkedAtMs >= CHECK_MS) {
        const refusal = await findRefusal()
        if (refusal !== undefined) return yield endFrame(refusal)
        checkedAtMs = clock.monotonicMs()
      }
      if (changed.length + left.length > 0)
        yield frame(
          'calls',
          `{"calls":[${changed.map(textOf).join(',')}],"left":${JSON.stringify(left)}}`,
          cursor,
        )
      else if (reader.ended !== undefined) return yield endFrame(reader.ended)
      else yield `${idLine(cursor)}: keep-alive\n\n`
    }
  } finally {
    reader.leave()
    leave?.()
  }
}

function endFrame({ code, message }: ToolError): string {
  return frame('end', JSON.stringify({ code, message }))
}

function frame(event: string, data: string, id?: string): string {
  return `${idLine(id)}event: ${event}\ndata: ${data}\n\n`
}

/** Ids are sent on quiet streams too, so that a reconnecting reader skips the changes that did not match its filter. */
function idLine(id: string | undefined): string {
  return id === undefined ? '' : `id: ${id}\n`
}

/** All readers get the same text, which is rendered once. */
const texts = new WeakMap<ChangedCall, string>()

function textOf(change: ChangedCall): string {
  const known = texts.get(change)
  if (known !== undefined) return known
  const { call, events, code = null, by } = change
  const rendered: RenderedChange = { ...renderSummary(call), ...defined({ by }), error_code: code, events }
  const text = JSON.stringify(rendered)
  texts.set(change, text)
  return text
}
