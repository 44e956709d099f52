import type { Gateway } from '#core/calls/gateway'
import { fault, isToolError, type ToolError } from '#core/errors'
import { checkRunId } from '#core/ids'
import type { LeavePlace } from '#core/limits/counters'
import type { RunPage } from '#core/runs/runs'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { encodeRunEvents } from './codec-run-event.ts'
import { decodeLastSequence, decodeTimeout } from './codec-run-query.ts'
import { refuse } from './refuse.ts'
import { jsonReply, noContent } from './reply.ts'
import { RUN_EVENTS_PATH, RUN_PATH, RUN_POLL_PATH } from './wire.ts'

/** A quiet stream says so this often (OWP-98: at least every 30 s). */
const KEEP_ALIVE_MS = 15_000

/** A principal's own runs: follow one, look at it, or end it. Nobody else's can be told from none (OWP-49). */
export function runRoutes(gateway: Gateway): readonly HttpRoute[] {
  const route = (
    method: 'GET' | 'DELETE',
    path: string,
    handle: (request: HttpRequest, gateway: Gateway) => Promise<HttpReply>,
  ): HttpRoute => ({
    method,
    path,
    access: 'authenticated',
    body: 'never',
    handle: (request) => handle(request, gateway),
    refuse,
  })
  return [
    route('GET', RUN_EVENTS_PATH, streamEvents),
    route('GET', RUN_POLL_PATH, pollEvents),
    route('DELETE', RUN_PATH, endRun),
  ]
}

async function streamEvents(
  { principal, params, headers, query, method, signal }: HttpRequest,
  gateway: Gateway,
): Promise<HttpReply> {
  const runId = readRunId(params)
  const after = decodeLastSequence(
    'Last-Event-ID',
    headers['last-event-id'] ?? query.get('lastSequence') ?? undefined,
  )
  const first = await gateway.readRun(principal, { runId, after, waitMs: 0 })
  if (first === undefined) throw noSuchRun()
  // A stream of which only the head is asked for has no end to wait for.
  const leave = method === 'HEAD' ? () => undefined : gateway.enterWaiting(principal)
  onEnd(signal, leave)
  const next = (last: number, signal: AbortSignal) =>
    gateway.readRun(principal, { runId, after: last, waitMs: KEEP_ALIVE_MS, signal })
  return {
    status: 200,
    headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' },
    body: (ended) => frames(runId, { after, next, ended, leave }),
  }
}

/** Also when the answer never gets as far as its body. */
function onEnd(signal: AbortSignal | undefined, leave: LeavePlace): void {
  if (signal?.aborted === true) leave()
  else signal?.addEventListener('abort', leave, { once: true })
}

interface Following {
  readonly after: number
  readonly next: (after: number, signal: AbortSignal) => Promise<RunPage | undefined>
  readonly ended: AbortSignal
  readonly leave: LeavePlace
}

/** Events as they come, until the run is over or the reader leaves. A server that shuts down just ends the stream. */
async function* frames(runId: string, { after, next, ended, leave }: Following): AsyncGenerator<string> {
  try {
    yield ': events of a run\n\n'
    for (let last = after; !ended.aborted; ) {
      const page = await next(last, ended)
      if (page === undefined) return
      if (page.events.length > 0) yield framesOf(page, runId)
      else if (!page.isComplete) yield ': keep-alive\n\n'
      if (page.isComplete) return
      last = page.events.at(-1)?.sequence ?? last
    }
  } catch (error) {
    if (!isToolError(error)) throw error
  } finally {
    leave()
  }
}

/** Every reader at the same place gets the same page: its text is made once. */
const pageTexts = new WeakMap<RunPage, string>()

function framesOf(page: RunPage, runId: string): string {
  const known = pageTexts.get(page)
  if (known !== undefined) return known
  const text = encodeRunEvents(page, runId)
    .map((event) => `id: ${event.sequence}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    .join('')
  pageTexts.set(page, text)
  return text
}

async function pollEvents(
  { principal, params, query, signal }: HttpRequest,
  gateway: Gateway,
): Promise<HttpReply> {
  const runId = readRunId(params)
  const after = decodeLastSequence('lastSequence', query.get('lastSequence') ?? undefined)
  const waitMs = decodeTimeout(query.get('timeout'))
  const leave = waitMs > 0 ? gateway.enterWaiting(principal) : undefined
  const asked = { runId, after, waitMs, ...(signal === undefined ? {} : { signal }) }
  const page = await gateway.readRun(principal, asked).finally(leave)
  if (page === undefined) throw noSuchRun()
  return jsonReply(200, { events: encodeRunEvents(page, runId), isComplete: page.isComplete })
}

async function endRun({ principal, params }: HttpRequest, gateway: Gateway): Promise<HttpReply> {
  if (await gateway.endRun(principal, readRunId(params))) return noContent()
  throw noSuchRun()
}

/** An id that cannot be one names no run. */
function readRunId({ runId = '' }: HttpRequest['params']): string {
  try {
    return checkRunId(runId)
  } catch {
    throw noSuchRun()
  }
}

function noSuchRun(): ToolError {
  return fault('run_not_found', 'You have no such run; it may have been made with another credential.')
}
