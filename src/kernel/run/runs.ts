import type { EndedParkedCall } from '#kernel/approval/approval'
import type { Clock } from '#kernel/base/clock'
import { fault, type ToolError } from '#kernel/base/errors'
import { ownRunId, recordOfRunId } from '#kernel/base/ids'
import { opaquePrincipal, type Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import type { CallAddress, CallRecord, RunAddress, RunRecord, RunScope } from '#kernel/call/call-record'
import type { NotifyChange, StoreWatcher } from '#kernel/store/engine'
import type { KernelStore } from '#kernel/store/store'
import { ownRunEvents, type RunEvent } from './events.ts'

/**
 * A principal's runs: their names, their end, reading their events, and requests that wait for changes to calls (readers of runs,
 * callers that wait for a decision, look-ups that joined a call in another process). The gateway offers it to protocols; the
 * ladder resolves each call's run here. For a caller, other principals' runs do not exist (rule 2, OWP-49). A waiting request holds
 * no database resources, and one watcher of the store serves all waiting requests.
 */

/** The run that a caller named. A call cannot join another call's own run, because that run ends with its call. */
export async function namedRun(store: KernelStore, principal: Principal, runId: string): Promise<RunScope> {
  const record = recordOfRunId(runId)
  const { tenant, id } = principal
  if (record !== undefined && (await store.find({ tenant, record }))?.principal === id) throw runEnded(runId)
  return namedScope(store, principal, runId)
}

export function runEnded(runId: string): ToolError {
  return fault('request_invalid', `Run '${runId}' has ended and accepts no more calls. Use another run id.`)
}

const MAX_PAGE_EVENTS = 500

export function namedScope(store: KernelStore, principal: Principal, runId: string): RunScope {
  const { tenant, id } = principal
  return { tenant, principal: id, runId, run: store.digest(JSON.stringify(['run', tenant, id, runId])) }
}

/** The run of a call that does not name a run. */
export function implicitRun({ tenant, id }: Principal, record: string): RunScope {
  return { tenant, principal: id, runId: ownRunId(record), run: record }
}

interface ReadRunNeeds {
  readonly store: KernelStore
  readonly clock: Clock
  readonly feed: RunFeed
}

interface EndRunNeeds extends ReadRunNeeds, Followers {
  readonly sessions: { closeRun(run: string): Promise<void> }
  readonly workflows: {
    readonly store: {
      cancel(address: CallAddress, by: string, atMs: number): MaybePromise<readonly EndedParkedCall[]>
    }
  }
}

export async function readOwnRun(
  needs: ReadRunNeeds,
  principal: Principal,
  query: RunQuery,
): Promise<RunPage | undefined> {
  const run = await locate(needs.store, principal, query.runId)
  if (run === undefined) return undefined
  return needs.feed.read(run, query, (after) => readPage(needs, principal, { run, after }))
}

/** Ends a run: it refuses new calls, its waiting calls are cancelled and its sessions are closed. Running calls may finish. */
export async function endOwnRun(needs: EndRunNeeds, principal: Principal, runId: string): Promise<boolean> {
  const run = await locate(needs.store, principal, runId)
  if (run === undefined) return false
  const { tenant, id } = principal
  await needs.store.endRun({ tenant, run }, needs.clock.nowMs())
  noteEnded(needs, await needs.store.approvals.cancel({ tenant, run }, id, needs.clock.nowMs()))
  // If this is the own run of a suspended workflow, the workflow ends too.
  noteEnded(needs, await needs.workflows.store.cancel({ tenant, record: run }, id, needs.clock.nowMs()))
  await needs.sessions.closeRun(run)
  needs.feed.notify(run)
  return true
}

/** The key of the principal's run with this id: a run that it named, or the own run of one of its calls. */
async function locate(store: KernelStore, principal: Principal, runId: string): Promise<string | undefined> {
  const { tenant, id } = principal
  const { run } = namedScope(store, principal, runId)
  if ((await store.findRun({ tenant, run })) !== undefined) return run
  const record = recordOfRunId(runId)
  if (record === undefined) return undefined
  const owner = (await store.findRun({ tenant, run: record })) ?? (await store.find({ tenant, record }))
  return owner?.principal === id ? record : undefined
}

/** The run's row is read before its events, because no events are added after a run has ended. */
async function readPage(
  { store, clock }: ReadRunNeeds,
  principal: Principal,
  { run, after }: { readonly run: string; readonly after: number },
): Promise<RunPage | undefined> {
  const { tenant } = principal
  const names = { key: run, principal: opaquePrincipal(store, principal) }
  const call = await store.find({ tenant, record: run })
  const found = await store.findRun({ tenant, run })
  const rest = (events: readonly RunEvent[]) => events.filter(({ sequence }) => sequence > after)
  if (found === undefined) {
    if (call === undefined || call.expired) return undefined
    return { ...names, events: rest(ownRunEvents(call)), isComplete: isEnded(call) }
  }
  if (call !== undefined && call.run === undefined) {
    const events = rest(await eventsBefore(store, { tenant, run }, call))
    return { ...names, events, isComplete: isEnded(call) }
  }
  const hasEnded = call === undefined ? isRunOver(found, clock.nowMs()) : found.open === 0 && isEnded(call)
  const events = await store.readRun({ tenant, run }, after, MAX_PAGE_EVENTS)
  return { ...names, events, isComplete: hasEnded && events.length < MAX_PAGE_EVENTS }
}

function isEnded({ state }: CallRecord): boolean {
  return state !== 'running' && state !== 'parked'
}

/** The stored events from before the call was recorded, followed by the events derived from its record (rule 20). */
async function eventsBefore(
  store: KernelStore,
  address: RunAddress,
  call: CallRecord,
): Promise<readonly RunEvent[]> {
  const earlier = await store.readRun(address, -1, MAX_PAGE_EVENTS)
  const own = call.expired ? [] : ownRunEvents(call)
  return [...earlier, ...own.map((event) => ({ ...event, sequence: event.sequence + earlier.length }))]
}

export interface RunQuery {
  readonly runId: string
  /** The last sequence number that the reader has; -1 for none. */
  readonly after: number
  /** How long to wait for new events before returning an empty page. */
  readonly waitMs: number
  readonly signal?: AbortSignal
}

/** Events after the requested sequence number, in order; there may be more. Readers at the same number share one object. */
export interface RunPage {
  /** Identifies the run in event ids; the same on every page. */
  readonly key: string
  /** Opaque id of the run's principal (OWP-51, OWP-62). */
  readonly principal: string
  readonly events: readonly RunEvent[]
  /** No events will follow these. */
  readonly isComplete: boolean
}

/** A run without open calls ends by itself after this long. */
export const RUN_IDLE_MS = 15 * 60_000

type RunLifetime = Pick<RunRecord, 'open' | 'touchedAtMs' | 'endedAtMs'>

/** Whether the run refuses new calls. */
export function isRunEnded({ open, touchedAtMs, endedAtMs }: RunLifetime, nowMs: number): boolean {
  return endedAtMs !== undefined || (open === 0 && nowMs - touchedAtMs >= RUN_IDLE_MS)
}

/** Whether no event will follow: the run and all calls and sessions in it have ended. */
function isRunOver(life: RunLifetime, nowMs: number): boolean {
  return life.open === 0 && isRunEnded(life, nowMs)
}

export interface Followers {
  readonly feed: RunFeed
  readonly waits: ApprovalWaits
}

/** Notifies readers of runs and waiting callers that parked calls have ended. */
export function noteEnded({ feed, waits }: Followers, ended: readonly EndedParkedCall[]): void {
  for (const { record, run } of ended) {
    feed.notify(run)
    waits.notify(record)
  }
}

/** Requests that wait for a decision. `close` ends all of them. */
export class ApprovalWaits {
  readonly #waiting = new Map<string, Set<() => void>>()
  readonly #changes: StoreChanges
  #isClosed = false

  constructor(changes: StoreChanges) {
    this.#changes = changes
  }

  /** Called when an approver has decided about this call, or the call has ended. */
  notify(record: string): void {
    for (const wake of this.#waiting.get(record) ?? []) wake()
  }

  /** Resolves with true once `isDecided` returns true, or with false after `waitMs`. */
  async until(
    record: string,
    { waitMs, gone }: { readonly waitMs: number; readonly gone: AbortSignal | undefined },
    isDecided: () => Promise<boolean>,
  ): Promise<boolean> {
    const endsAtMs = performance.now() + waitMs
    for (;;) {
      if (await isDecided()) return true
      const remainingMs = endsAtMs - performance.now()
      if (remainingMs <= 0 || this.#isClosed || gone?.aborted === true) return false
      await this.#next(record, remainingMs, gone)
    }
  }

  close(): void {
    this.#isClosed = true
    this.#onChange(undefined)
  }

  readonly #onChange: NotifyChange = (names = [...this.#waiting.keys()]) => {
    for (const record of names) this.notify(record)
    if (this.#waiting.size === 0) this.#changes.ignore(this.#onChange)
  }

  #next(record: string, maxMs: number, gone: AbortSignal | undefined): Promise<void> {
    const waiting = this.#waiting.get(record) ?? new Set()
    this.#waiting.set(record, waiting)
    this.#changes.listen(this.#onChange)
    return nextWake(waiting, maxMs, gone, () => {
      if (waiting.size === 0) this.#waiting.delete(record)
    })
  }
}

type Page = Promise<RunPage | undefined>

type ReadPage = (after: number) => Page

interface Watch {
  readonly wake: Set<() => void>
  readonly pages: Map<number, Page>
  /** Number of readers that wait for a page. */
  readers: number
}

/**
 * Lets any number of readers follow a run at the cost of one: readers at the same sequence number share one page, and one watcher
 * of the store reports changes by other processes for all runs.
 */
export class RunFeed {
  readonly #watched = new Map<string, Watch>()
  readonly #changes: StoreChanges
  #isClosed = false

  constructor(changes: StoreChanges) {
    this.#changes = changes
  }

  /** Called after a commit in this run. */
  notify(run: string): void {
    const watch = this.#watched.get(run)
    if (watch !== undefined) renew(watch)
  }

  /** Called after a commit in unknown runs. */
  notifyAll(): void {
    for (const watch of this.#watched.values()) renew(watch)
  }

  /** The next page, as soon as it has events or the reader's wait is over. */
  read(run: string, query: Omit<RunQuery, 'runId'>, readPage: ReadPage): Promise<RunPage | undefined> {
    const { after, waitMs } = query
    const watch = waitMs > 0 && !this.#isClosed ? this.#watch(run) : this.#watched.get(run)
    if (watch === undefined) return readPage(after).then((page) => this.#checkOpen(page, waitMs))
    return this.#follow(watch, query, readPage)
  }

  /** Waiting readers get `not_ready`, and later readers do not wait. */
  close(): void {
    this.#isClosed = true
    this.notifyAll()
    this.#watched.clear()
    this.#changes.ignore(this.#onChange)
  }

  async #follow(
    watch: Watch,
    { after, waitMs, signal }: Omit<RunQuery, 'runId'>,
    readPage: ReadPage,
  ): Promise<RunPage | undefined> {
    const endsAtMs = performance.now() + waitMs
    watch.readers += 1
    try {
      for (;;) {
        const shared = sharedPage(watch, after, readPage)
        const page = await shared
        if (page === undefined || page.events.length > 0 || page.isComplete) return page
        const remainingMs = endsAtMs - performance.now()
        if (remainingMs <= 0 || signal?.aborted === true) return page
        this.#checkOpen(page, remainingMs)
        // A page that was invalidated while it was read may lack newer events.
        if (watch.pages.get(after) !== shared) continue
        await nextWake(watch.wake, remainingMs, signal)
        this.#checkOpen(page, remainingMs)
      }
    } finally {
      watch.readers -= 1
    }
  }

  /** Throws if the feed is closed and a reader that wanted to wait would get an empty page. */
  #checkOpen(page: RunPage | undefined, waitMs: number): RunPage | undefined {
    const hasResult = page === undefined || page.events.length > 0 || page.isComplete
    if (hasResult || waitMs <= 0 || !this.#isClosed) return page
    throw fault('not_ready', 'The server is shutting down.', { retryAfterMs: 2_000 })
  }

  #watch(run: string): Watch {
    const known = this.#watched.get(run)
    if (known !== undefined) return known
    const watch: Watch = { wake: new Set(), pages: new Map(), readers: 0 }
    this.#watched.set(run, watch)
    this.#changes.listen(this.#onChange)
    this.#changes.want(run)
    return watch
  }

  readonly #onChange: NotifyChange = (names) => {
    for (const [run, { readers }] of this.#watched) if (readers === 0) this.#watched.delete(run)
    for (const run of names ?? this.#watched.keys()) {
      this.notify(run)
      if (this.#watched.has(run)) this.#changes.want(run)
    }
    if (this.#watched.size === 0) this.#changes.ignore(this.#onChange)
  }
}

/** Drops the cached pages; waiting readers read again. */
function renew({ wake, pages }: Watch): void {
  pages.clear()
  const waiting = [...wake]
  wake.clear()
  for (const wake of waiting) wake()
}

/** The page that all readers at this sequence number share. A failure is shared by its readers, but not cached. */
function sharedPage({ pages }: Watch, after: number, readPage: ReadPage): Page {
  const known = pages.get(after)
  if (known !== undefined) return known
  const page = readPage(after)
  pages.set(after, page)
  page.catch(() => {
    if (pages.get(after) === page) pages.delete(after)
  })
  return page
}

/** Resolves when the function that it adds to `waiting` is called, after `maxMs`, or when the signal aborts. */
function nextWake(
  waiting: Set<() => void>,
  maxMs: number,
  signal: AbortSignal | undefined,
  onWoken?: () => void,
): Promise<void> {
  return new Promise((resolve) => {
    const wake = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', wake)
      waiting.delete(wake)
      onWoken?.()
      resolve()
    }
    const timer = setTimeout(wake, maxMs)
    signal?.addEventListener('abort', wake, { once: true })
    waiting.add(wake)
  })
}

/** All listeners read again this often, because some states end by time alone and a notification may be lost. */
const REREAD_MS = 5_000

/** One watcher of the store for all listeners of this process. */
export class StoreChanges {
  readonly #store: Pick<KernelStore, 'watch'>
  readonly #listeners = new Set<NotifyChange>()
  #watcher: StoreWatcher | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(store: Pick<KernelStore, 'watch'>) {
    this.#store = store
  }

  listen(onChange: NotifyChange): void {
    this.#listeners.add(onChange)
    this.#watcher ??= this.#store.watch((names) => this.#notify(names))
    this.#timer ??= setInterval(() => this.#notify(undefined), REREAD_MS).unref()
  }

  /** Requests notifications about this run or call. A listener repeats it after each notification while it still waits. */
  want(name: string): void {
    this.#watcher?.want(name)
  }

  ignore(onChange: NotifyChange): void {
    this.#listeners.delete(onChange)
    if (this.#listeners.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#watcher?.end()
    this.#watcher = undefined
  }

  /** Resolves when this run or call may have changed, or after `maxMs`. */
  next(name: string, maxMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        this.ignore(look)
        resolve()
      }
      const look: NotifyChange = (names) => {
        if (names === undefined || names.includes(name)) done()
      }
      const timer = setTimeout(done, maxMs)
      this.listen(look)
      this.want(name)
    })
  }

  #notify(names: readonly string[] | undefined): void {
    for (const notify of [...this.#listeners]) notify(names)
  }
}
