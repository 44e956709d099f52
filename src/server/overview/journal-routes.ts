/**
 * Checks the journal while the server serves calls: `POST /admin/journal/verify` answers with events, `progress` and at the end
 * `verified` or `stopped`; a reader that disconnects ends the check. The last result is kept in memory: in the database it would be as
 * easy to forge as the journal itself.
 */
import { setTimeout } from 'node:timers/promises'
import { type JournalCheck, READ_JOURNAL_STATE, VERIFY_JOURNAL } from '#admin-api/server'
import type { Clock } from '#kernel/base/clock'
import type { Principal } from '#kernel/base/principal'
import type { Release } from '#kernel/call/stages'
import type { OperatorAccess } from '#server/admin/access'
import { serveOperation, serveReply, timeOf } from '#server/admin/admin-route'
import { httpFault } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { commandOnPages } from '#server/own-command'
import type { Store } from '#store/collet-store'
import type { JournalVerification } from '#store/verify'

/** A longer check would keep the database from reclaiming space. */
const MAX_MS = 120_000
/** Interval between two reports of progress. */
const PROGRESS_MS = 250

interface JournalRoutesOptions {
  readonly store: Pick<Store, 'journalChains' | 'verifyInPieces'>
  readonly clock: Clock
  /** Counts a request that is held open; throws if there are too many. */
  enter(principal: Principal): Release
}

export function createJournalRoutes(
  access: OperatorAccess,
  options: JournalRoutesOptions,
): readonly ServerRoute[] {
  const { store, clock, enter } = options
  let isRunning = false
  let last: JournalCheck | null = null

  async function* check(groups: number, ended: AbortSignal): AsyncGenerator<string> {
    if (isRunning) return yield frame('stopped', { message: RUNS_ALREADY })
    isRunning = true
    const late = AbortSignal.timeout(MAX_MS)
    const startedMs = clock.nowMs()
    let checked = 0
    try {
      const work = store.verifyInPieces({
        signal: AbortSignal.any([ended, late]),
        onGroups: (count) => {
          checked = count
        },
      })
      // If the reader disconnects between two frames, no other code handles the failure of the check.
      work.catch(() => undefined)
      for (;;) {
        const found = await Promise.race([work, setTimeout(PROGRESS_MS, undefined)])
        if (ended.aborted) return
        if (found !== undefined) {
          last = renderCheck(found, startedMs, clock.nowMs())
          return yield frame('verified', last)
        }
        yield frame('progress', { checked, groups: Math.max(groups, checked) })
      }
    } catch {
      if (ended.aborted) return
      const command = `"${commandOnPages()} journal verify" on the server's machine`
      yield frame('stopped', {
        message: late.aborted
          ? `The check did not end within ${MAX_MS / 1_000} seconds. Run ${command}: it has no time limit.`
          : `The store could not be read, so the state of the journal is unknown. Run ${command}: it shows the reason.`,
      })
    } finally {
      isRunning = false
    }
  }

  return [
    serveOperation(access, READ_JOURNAL_STATE, async () => ({
      last,
      chains: (await store.journalChains()).length,
      checking: isRunning,
    })),
    serveReply(access, VERIFY_JOURNAL, async ({ principal }) => {
      if (isRunning) throw httpFault(409, RUNS_ALREADY)
      const chains = await store.journalChains()
      const groups = chains.reduce((sum, { group }) => sum + group + 1, 0)
      const release = enter(principal)
      return {
        status: 200,
        headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
        async *body(ended) {
          try {
            yield* check(groups, ended)
          } finally {
            release()
          }
        },
      }
    }),
  ]
}

const RUNS_ALREADY = 'The journal is already being verified. Wait until that check ends, or stop it.'

function frame(event: string, data: object): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}

function renderCheck(found: JournalVerification, startedMs: number, nowMs: number): JournalCheck {
  const { ok, chains, groups, events, rows, heads } = found
  return {
    ok,
    at: timeOf(nowMs),
    took_ms: nowMs - startedMs,
    ...{ chains, groups, events, rows, heads },
    first_bad: found.firstBad ?? null,
    bad_rows: found.badRows,
    cannot_see: found.cannotSee,
  }
}
