/**
 * Publishes changed calls to readers. One poll of the journal serves all readers, and without readers the feed does not poll. It keeps one
 * position in each chain of the journal (rule 16), so every server of a store sees the changes made by all servers. A reader gets the
 * current state of a call, so several changes to one call are one entry. Only `call-events.ts` reads from it.
 */
import type { Clock } from '#kernel/base/clock'
import { type ErrorCode, fault, type ToolError } from '#kernel/base/errors'
import type { CallState } from '#kernel/call/call'
import type { JournalChain, JournalEvent, JournalGroup, JournalPosition } from '#kernel/journal/events'
import { type CallSummary, type FollowedCalls, matchesExceptState } from '#store/call-filter'
import type { Store } from '#store/collet-store'

/** How often the journal is polled. Changes between two polls are sent together, so that many calls cost little more than one. */
const POLL_MS = 250
const GROUPS_AT_ONCE = 500
/** Maximum number of commits that a reconnecting reader gets; a reader that missed more must list calls again. */
const MAX_BACKLOG = 2_000
/** Maximum number of changed calls that are kept for a slow reader. */
const MAX_WAITING = 2_000

export interface ChangedCall {
  readonly call: CallSummary
  /** Types of the events of the call since the last page that the reader took. */
  readonly events: readonly CallChange['type'][]
  readonly code: ErrorCode | undefined
  /** The operator who made the call in the principal's name; absent if these events name no operator. */
  readonly by?: string
}

interface CallFeedOptions {
  readonly store: Pick<Store, 'readJournal' | 'journalChains' | 'summaries'>
  readonly clock: Clock
}

export class CallFeed {
  readonly #options: CallFeedOptions
  readonly #readers = new Set<CallReader>()
  readonly #chains = new Map<string, JournalChain>()
  #started: Promise<void> | undefined
  #wake: (() => void) | undefined
  #isClosed = false

  constructor(options: CallFeedOptions) {
    this.#options = options
  }

  /** Opens a reader of the changes from now on, or since the cursor of a reconnecting reader. */
  async open(filter: FollowedCalls, after?: string): Promise<CallReader> {
    if (this.#isClosed) throw shuttingDownError()
    const reader = new CallReader(filter, this.#options.clock, () => this.#readers.delete(reader))
    // The reader is added before the backlog is read, so that no change is lost between them and the next poll.
    this.#readers.add(reader)
    try {
      this.#started ??= this.#start()
      await this.#started
      const backlog = after === undefined ? [] : await this.#backlogSince(after, filter)
      reader.begin(backlog, cursorOf(this.#chains))
      return reader
    } catch (error) {
      reader.leave()
      throw error
    }
  }

  close(): void {
    this.#isClosed = true
    this.#endAll(shuttingDownError())
    this.#wake?.()
  }

  async #start(): Promise<void> {
    try {
      const chains = await this.#options.store.journalChains()
      this.#chains.clear()
      for (const chain of chains) this.#chains.set(chain.writer, chain)
    } catch (error) {
      this.#started = undefined
      throw error
    }
    void this.#poll()
  }

  /** If the journal cannot be read, all streams end; their readers connect again and get the reason. */
  async #poll(): Promise<void> {
    try {
      while (this.#readers.size > 0) {
        const groups = await this.#options.store.readJournal([...this.#chains.values()], GROUPS_AT_ONCE)
        if (groups.length > 0) await this.#publish(groups)
        if (groups.length === GROUPS_AT_ONCE) continue
        const pause = startPause(POLL_MS)
        this.#wake = pause.wake
        await pause.ended
      }
    } catch {
      this.#endAll(fault('not_ready', 'The journal cannot be read now.', { retryAfterMs: 1_000 }))
    } finally {
      this.#started = undefined
    }
  }

  async #publish(groups: readonly JournalGroup[]): Promise<void> {
    await this.#advance(groups)
    const readers = [...this.#readers]
    const changes = await this.#changesIn(groups, ({ tenant }) => readers.some((each) => each.isFor(tenant)))
    const cursor = cursorOf(this.#chains)
    for (const reader of this.#readers) reader.push(changes, cursor)
  }

  async #advance(groups: readonly JournalGroup[]): Promise<void> {
    if (groups.some(({ writer }) => !this.#chains.has(writer))) {
      for (const chain of await this.#options.store.journalChains()) {
        const group = this.#chains.get(chain.writer)?.group ?? BEFORE_FIRST_GROUP
        // A chain counts as ended only once it is read to its end; until then a cursor must name it.
        this.#chains.set(chain.writer, { ...chain, group, hasEnded: chain.hasEnded && group >= chain.group })
      }
    }
    for (const { writer, group, events } of groups) {
      const chain = this.#chains.get(writer)
      const hasStopped = events.some(({ type }) => type === 'writer.stopped')
      if (chain !== undefined)
        this.#chains.set(writer, { ...chain, group, hasEnded: hasStopped || chain.hasEnded })
    }
  }

  async #changesIn(
    groups: readonly JournalGroup[],
    isWanted: (event: CallChange) => boolean,
  ): Promise<readonly ChangedCall[]> {
    const events = groups.flatMap((group) => group.events.filter(isChange).filter(isWanted))
    const byRecord = Map.groupBy(events, ({ record }) => record)
    if (byRecord.size === 0) return []
    const calls = await this.#options.store.summaries([...byRecord.keys()])
    const found = new Map(calls.map((call) => [call.record, call]))
    return [...byRecord].flatMap(([record, own]) => {
      const call = found.get(record)
      if (call === undefined) return []
      return { call, events: own.map(({ type }) => type), code: codeOf(call, own), ...operatorIn(own) }
    })
  }

  /** The changes since a cursor; `undefined` if there are too many, or the cursor is from another store. */
  async #backlogSince(after: string, filter: FollowedCalls): Promise<readonly ChangedCall[] | undefined> {
    const chains = await this.#options.store.journalChains()
    const positions = positionsOf(after, chains)
    if (positions === undefined) return undefined
    const groupsSince: JournalGroup[] = []
    for (;;) {
      const groups = await this.#options.store.readJournal([...positions.values()], GROUPS_AT_ONCE)
      for (const group of groups) positions.set(group.writer, group)
      groupsSince.push(...groups)
      if (groupsSince.length > MAX_BACKLOG) return undefined
      if (groups.length < GROUPS_AT_ONCE) break
    }
    return await this.#changesIn(groupsSince, ({ tenant }) => isTenantOf(filter, tenant))
  }

  #endAll(why: ToolError): void {
    for (const reader of this.#readers) reader.end(why)
  }
}

/** A pause that ends after `maxMs`, when the signal aborts, or when `wake` is called. */
function startPause(maxMs: number, signal?: AbortSignal) {
  const { promise, resolve } = Promise.withResolvers<void>()
  const wake = (): void => resolve()
  const timer = setTimeout(wake, maxMs)
  signal?.addEventListener('abort', wake, { once: true })
  const ended = promise.then(() => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', wake)
  })
  return { wake, ended }
}

function shuttingDownError(): ToolError {
  return fault('not_ready', 'The server is shutting down.', { retryAfterMs: 2_000 })
}

/** One reader of the feed. Changes that it has not taken yet wait here, one entry for each call. */
export class CallReader {
  readonly leave: () => void
  readonly #filter: FollowedCalls
  readonly #clock: Clock
  readonly #changed = new Map<string, ChangedCall>()
  /** Records of calls that no longer match the filter. */
  readonly #left = new Set<string>()
  /** Pushes that arrived before `begin`, which adds the backlog; `undefined` after it. */
  #early: (() => void)[] | undefined = []
  #cursor: string | undefined
  #hasGap = false
  #end: ToolError | undefined
  #wake: (() => void) | undefined

  constructor(filter: FollowedCalls, clock: Clock, leave: () => void) {
    this.#filter = filter
    this.#clock = clock
    this.leave = leave
  }

  /** Whether changes since the reader's cursor were skipped. */
  get hasGap(): boolean {
    return this.#hasGap
  }

  /** Position for a reconnecting reader, valid on any server of the store; absent if there are too many writers. */
  get cursor(): string | undefined {
    return this.#cursor
  }

  /** Why the feed ended; waiting changes can still be taken. */
  get ended(): ToolError | undefined {
    return this.#end
  }

  isFor(tenant: string): boolean {
    return isTenantOf(this.#filter, tenant)
  }

  /** `backlog` contains the changes since the reader's cursor; `undefined` if they are skipped. */
  begin(backlog: readonly ChangedCall[] | undefined, cursor: string | undefined): void {
    const early = this.#early ?? []
    this.#early = undefined
    this.#hasGap = backlog === undefined
    this.push(backlog ?? [], cursor)
    for (const push of early) push()
  }

  push(changes: readonly ChangedCall[], cursor: string | undefined): void {
    if (this.#early !== undefined) {
      this.#early.push(() => this.push(changes, cursor))
      return
    }
    this.#cursor = cursor
    for (const change of changes) this.#keep(change)
    const waiting = this.#changed.size + this.#left.size
    if (waiting > MAX_WAITING)
      this.end(
        fault('rate_limited', `More than ${MAX_WAITING} changed calls waited to be read. List calls again.`),
      )
    else if (waiting > 0) this.#wake?.()
  }

  /** Resolves with the waiting changes as soon as there are some; with an empty page after `maxMs` or at the end. */
  async take(maxMs: number, signal: AbortSignal) {
    if (this.#changed.size + this.#left.size === 0 && this.#end === undefined && !signal.aborted) {
      const pause = startPause(maxMs, signal)
      this.#wake = pause.wake
      await pause.ended
    }
    const page = { changed: [...this.#changed.values()], left: [...this.#left], cursor: this.#cursor }
    this.#changed.clear()
    this.#left.clear()
    return page
  }

  end(why: ToolError): void {
    this.#end ??= why
    this.leave()
    this.#wake?.()
  }

  #keep(change: ChangedCall): void {
    const { record, state } = change.call
    if (!matchesExceptState(this.#filter, change.call, this.#clock.nowMs())) return
    const { states } = this.#filter
    if (states === undefined || states.includes(state)) {
      this.#left.delete(record)
      this.#changed.set(record, withEarlier(change, this.#changed.get(record)))
    } else if (this.#changed.delete(record) || statesBefore(change).some((before) => states.includes(before)))
      this.#left.add(record)
  }
}

/** The change together with an earlier one that the reader has not taken yet. */
function withEarlier(change: ChangedCall, earlier: ChangedCall | undefined): ChangedCall {
  if (earlier === undefined) return change
  const isSameState = change.call.state === earlier.call.state
  return {
    ...earlier,
    ...change,
    events: [...new Set([...earlier.events, ...change.events])],
    code: change.code ?? (isSameState ? earlier.code : undefined),
  }
}

function isTenantOf({ tenant }: FollowedCalls, other: string): boolean {
  return tenant === undefined || tenant === other
}

type CallChange = Extract<JournalEvent, { readonly record: string; readonly attempt: number }>

/** Events that name a call but do not change it: a read of its contents, or a refusal by a limit. */
const UNCHANGED: ReadonlySet<JournalEvent['type']> = new Set(['call.shown', 'call.refused'])

function isChange(event: JournalEvent): event is CallChange {
  return 'record' in event && !UNCHANGED.has(event.type)
}

function operatorIn(events: readonly CallChange[]): { readonly by?: string } {
  for (const event of events) {
    const mayName =
      event.type === 'call.claimed' || event.type === 'call.parked' || event.type === 'call.succeeded'
    if (mayName && event.by !== undefined) return { by: event.by }
  }
  return {}
}

const STATES_BEFORE: Partial<Record<CallChange['type'], readonly CallState[]>> = {
  'call.succeeded': ['running'],
  'call.failed': ['running', 'parked'],
  'call.released': ['running'],
  'call.parked': ['running', 'released'],
  'call.suspended': ['running'],
  'call.resumed': ['parked'],
  'call.ambiguous': ['running'],
  'call.corrected': ['released'],
  'call.settled': ['ambiguous'],
  'approval.used': ['parked'],
}

function statesBefore({ call, events }: ChangedCall): readonly CallState[] {
  const isRerun = call.attempt > 1 && events.includes('call.claimed')
  return [...events.flatMap((type) => STATES_BEFORE[type] ?? []), ...(isRerun ? (['released'] as const) : [])]
}

/** The error code of a failed call, from the journal, because its outcome is sealed. */
function codeOf({ state }: CallSummary, events: readonly CallChange[]): ErrorCode | undefined {
  if (state !== 'failed' && state !== 'released') return undefined
  for (const event of events.toReversed()) {
    if ('code' in event && event.type !== 'call.late') return event.code
    if (event.type === 'call.settled') return 'tool_failed'
  }
  return undefined
}

const BEFORE_FIRST_GROUP = -1
/** Maximum number of positions in a cursor, which must fit into a header; with more open chains there is no cursor. */
const MAX_POSITIONS = 200
const CURSOR = /^\d{1,15}(?:\.\d{1,15}-\d{0,15}){0,200}$/

/**
 * The number of the newest chain, and the position in each chain that may still grow; the position is empty if nothing of the chain was
 * read. Writers are numbered in the order in which they begin, so a chain that a cursor does not name had ended before the cursor was
 * made, or began after it.
 */
function cursorOf(chains: ReadonlyMap<string, JournalChain>): string | undefined {
  const all = [...chains.values()]
  const open = all.filter(({ hasEnded }) => !hasEnded)
  if (open.length > MAX_POSITIONS) return undefined
  const newest = all.reduce((max, { no }) => Math.max(max, no), 0)
  return [newest, ...open.map(({ no, group }) => `${no}-${group < 0 ? '' : group}`)].join('.')
}

/** Returns `undefined` if the text is not a cursor of this store. */
function positionsOf(
  cursor: string,
  chains: readonly JournalChain[],
): Map<string, JournalPosition> | undefined {
  if (!CURSOR.test(cursor)) return undefined
  const [newest = '', ...named] = cursor.split('.')
  const positions = new Map(
    named
      .map((text) => text.split('-'))
      .map(([no, group = '']) => [Number(no), group === '' ? BEFORE_FIRST_GROUP : Number(group)]),
  )
  const known = new Set(chains.map(({ no }) => no))
  const areKnown = [...positions.keys()].every((no) => known.has(no))
  if (Number(newest) > Math.max(0, ...known) || !areKnown) return undefined
  return new Map(
    chains.flatMap(({ no, writer, group }) => {
      const position = positions.get(no) ?? (no > Number(newest) ? undefined : group)
      return position === undefined ? [] : [[writer, { writer, group: position }]]
    }),
  )
}
