import type { Clock } from '#kernel/base/clock'
import type { Principal } from '#kernel/base/principal'
import type { Release } from '#kernel/call/stages'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { adminRoute, NO_STORE, type OperatorAccess, requireServerScope } from '#server/admin/access'
import { httpFault, jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { commandOnPages } from '#server/own-command'
import type { Store } from '#store/collet-store'
import type { JournalVerification } from '#store/verify'

const SCOPE = 'audit:read'
/** Longer than this it would keep the database from letting go of what it wrote meanwhile. */
const MAX_MS = 120_000
/** How often a reader hears how far it is. */
const TELL_MS = 250

interface JournalRoutesOptions {
  readonly store: Pick<Store, 'journalChains' | 'verifyInPieces'>
  readonly clock: Clock
  /** For a request that is held open; throws when there are too many. */
  enter(principal: Principal): Release
  /** Default two minutes. */
  readonly longestMs?: number
}

/**
 * The journal, checked by the server itself beside its calls: `POST /admin/journal/verify` answers with events, `progress` and at the
 * end `verified` or `stopped`; who leaves, ends it. What came of the last one is remembered by the process: kept in the database, it
 * would be as easy to forge as what it vouches for.
 */
export function createJournalRoutes(
  options: JournalRoutesOptions,
  access: OperatorAccess,
): readonly ServerRoute[] {
  const { store, clock, enter, longestMs = MAX_MS } = options
  let isRunning = false
  let last: RenderedCheck | null = null

  const show = async ({ principal }: HttpRequest): Promise<HttpReply> => {
    requireServerScope(principal, SCOPE, access)
    const chains = await store.journalChains()
    return jsonReply(200, { last, chains: chains.length, checking: isRunning }, NO_STORE)
  }

  async function* check(groups: number, ended: AbortSignal): AsyncGenerator<string> {
    if (isRunning) return yield frame('stopped', { message: RUNS_ALREADY })
    isRunning = true
    try {
      yield* follow(groups, ended)
    } finally {
      isRunning = false
    }
  }

  async function* follow(groups: number, ended: AbortSignal): AsyncGenerator<string> {
    const late = AbortSignal.timeout(longestMs)
    const startedMs = clock.nowMs()
    let checked = 0
    const work = store.verifyInPieces({
      signal: AbortSignal.any([ended, late]),
      onGroups: (count) => {
        checked = count
      },
    })
    const settled = work.then(
      (found) => ({ found }),
      (error: unknown) => ({ error }),
    )
    for (;;) {
      const outcome = await Promise.race([settled, pause()])
      if (outcome === undefined) {
        yield frame('progress', { checked, groups: Math.max(groups, checked) })
        continue
      }
      if (ended.aborted) return
      if ('found' in outcome) {
        last = renderCheck(outcome.found, startedMs, clock.nowMs())
        return yield frame('verified', last)
      }
      return yield frame('stopped', {
        message: late.aborted
          ? `It is not done after ${longestMs / 1_000} seconds. Run "${commandOnPages()} journal verify" where the store is: it takes the time it needs.`
          : 'The store could not be read. Nothing is known about the journal now; the log of the server says why.',
      })
    }
  }

  const verify = async ({ principal }: HttpRequest): Promise<HttpReply> => {
    requireServerScope(principal, SCOPE, access)
    if (isRunning) throw httpFault(409, RUNS_ALREADY)
    const chains = await store.journalChains()
    const groups = chains.reduce((sum, { group }) => sum + group + 1, 0)
    const leave = enter(principal)
    return {
      status: 200,
      headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
      async *body(ended) {
        try {
          yield* check(groups, ended)
        } finally {
          leave()
        }
      },
    }
  }
  return [
    adminRoute(access, 'GET', '/admin/journal', show),
    adminRoute(access, 'POST', '/admin/journal/verify', verify),
  ]
}

const RUNS_ALREADY = 'The journal is being verified already. Wait for that to end, or stop it.'

function pause(): Promise<undefined> {
  return new Promise((resolve) => setTimeout(() => resolve(undefined), TELL_MS))
}

function frame(event: string, data: object): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}

type RenderedCheck = ReturnType<typeof renderCheck>

function renderCheck(found: JournalVerification, startedMs: number, nowMs: number) {
  const { ok, chains, groups, events, rows, heads } = found
  return {
    ok,
    at: new Date(nowMs).toISOString(),
    took_ms: nowMs - startedMs,
    ...{ chains, groups, events, rows, heads },
    first_bad: found.firstBad ?? null,
    bad_rows: found.badRows,
    cannot_see: found.cannotSee,
  }
}
