/**
 * Finds calls for operators. A search by id first looks where the id leads directly: records, runs of one call, approvals, and call ids
 * of known callers. Otherwise, calls are compared page by page for a limited time. The routes for calls use it.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '#kernel/base/clock'
import { recordOfRunId } from '#kernel/base/ids'
import type { CallPage, CallRecord } from '#kernel/call/call-record'
import { recordOf } from '#kernel/call/look-up'
import type { CallFilter } from '#store/call-filter'
import type { Store } from '#store/collet-store'

export type IdLookup = Pick<
  Store,
  'list' | 'findByRecords' | 'findByPrefix' | 'newestCallers' | 'recordOfApproval' | 'digest'
>

/** Reads pages, each from the position that the previous page returned. Returns false if the time ran out before the last page. */
export async function readUntil(
  clock: Clock,
  readPage: (before: number | undefined) => Promise<number | undefined>,
): Promise<boolean> {
  const startedAtMs = clock.monotonicMs()
  let before: number | undefined
  do {
    before = await readPage(before)
    if (before === undefined) return true
    // SQLite runs in this thread, so other calls get a turn between two pages.
    await nextTurn()
  } while (clock.monotonicMs() - startedAtMs < MAX_READ_MS)
  return false
}

/** Groups of errors and conversations that take longer are incomplete. */
const MAX_READ_MS = 5_000

/** A search that takes longer returns the calls found so far; the next page continues it. */
const MAX_SEARCH_MS = 800
const MAX_CALLERS = 1_000
/** A shorter text is not used as a prefix of record ids. */
const MIN_PREFIX = 6

export async function findCalls(store: IdLookup, filter: CallFilter, clock: Clock): Promise<CallPage> {
  const { search, before, limit } = filter
  if (search === undefined) return await store.list(filter)
  const id = search.id ?? search.callId
  if (id !== undefined && before === undefined) {
    const direct = await findDirectly(store, id, filter.tenant, search.callId === id)
    if (direct.length > 0) return { calls: direct.slice(0, limit) }
  }
  const found: CallRecord[] = []
  const startedAtMs = clock.monotonicMs()
  let page: CallPage = { calls: [] }
  for (let next = before; ; next = page.next) {
    page = await store.list({ ...filter, before: next, limit: limit - found.length })
    found.push(...page.calls)
    const isDone = page.next === undefined || found.length >= limit
    if (isDone || clock.monotonicMs() - startedAtMs > MAX_SEARCH_MS) return { ...page, calls: found }
    // SQLite runs in this thread, so other calls get a turn between two pages.
    await nextTurn()
  }
}

/** Calls that an id leads to directly, in any time range. */
async function findDirectly(
  store: IdLookup,
  id: string,
  tenant: string | undefined,
  isCallId: boolean,
): Promise<readonly CallRecord[]> {
  const isVisible = (call: CallRecord): boolean => tenant === undefined || call.tenant === tenant
  if (!isCallId) {
    const named = [id, recordOfRunId(id), await store.recordOfApproval(id)]
    const records = named.filter((record) => record !== undefined)
    const found = (await store.findByRecords(records)).filter(isVisible)
    if (found.length > 0) return found
    const begun = id.length < MIN_PREFIX ? [] : await store.findByPrefix(id, MAX_BEGUN)
    if (begun.some(isVisible)) return begun.filter(isVisible)
  }
  const callers = await store.newestCallers(tenant, MAX_CALLERS)
  const records = callers.map((caller) => recordOf(store, { ...caller, id: caller.principal }, id))
  return (await store.findByRecords(records)).filter((call) => isVisible(call) && call.callId === id)
}

const MAX_BEGUN = 20
