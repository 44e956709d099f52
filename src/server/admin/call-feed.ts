import type { Clock } from '#kernel/base/clock'
import { type ErrorCode, fault, type ToolError } from '#kernel/base/errors'
import type { CallState } from '#kernel/call/call'
import type { JournalChain, JournalEvent, JournalGroup, JournalPosition } from '#kernel/journal/events'
import { type CallGlance, type FollowedCalls, matchesButState } from '#store/call-filter'
import type { Store } from '#store/collet-store'

/** How soon a change is told. What happens meanwhile goes out together, so that many calls cost little more than one. */
const LOOK_MS = 250
const GROUPS_AT_ONCE = 500
/** Commits that a reader who comes back is told of; whoever missed more lists calls anew. */
const MAX_MISSED = 2_000
/** Calls that wait for a reader who takes them too slowly. */
const MAX_WAITING = 2_000

/** A call that changed, as it is now. */
export interface ChangedCall {
  readonly call: CallGlance
  /** What happened to it since readers were last told. */
  readonly events: readonly CallChange['type'][]
  readonly code: ErrorCode | undefined
  /** The operator who ran it under the principal's name; absent also where these events do not tell. */
  readonly by?: string
}

/** What a reader is told at once. */
export interface FeedPage {
  readonly changed: readonly ChangedCall[]
  /** Records of calls that its filter meant before, and does not mean any more. */
  readonly left: readonly string[]
  /** Where a reader that comes back goes on, on any server of the store; absent when nobody can. */
  readonly cursor: string | undefined
}

interface CallFeedOptions {
  readonly store: Pick<Store, 'readJournal' | 'journalChains' | 'glance'>
  readonly clock: Clock
}

/**
 * Calls as they change, for any number of readers at the price of one: one place in each chain of the journal (rule 16),
 * one look for everybody, and none while nobody reads. So every server of a store sees what all of them do. What is told
 * is the call as it is by then, so several changes of one call are one.
 */
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

  /** Begins with what changes from now on, or after the place where a reader stopped. */
  async open(filter: FollowedCalls, after?: string): Promise<CallReader> {
    if (this.#isClosed) throw closing()
    const reader = new CallReader(filter, this.#options.clock, () => this.#readers.delete(reader))
    // Before the first look, so that nothing falls between what it missed and what comes.
    this.#readers.add(reader)
    try {
      this.#started ??= this.#start()
      await this.#started
      const missed = after === undefined ? [] : await this.#missedSince(after, filter)
      reader.begin(missed ?? [], { cursor: cursorOf(this.#chains), hasMissed: missed === undefined })
      return reader
    } catch (error) {
      reader.leave()
      throw error
    }
  }

  /** Everybody is sent home. */
  close(): void {
    this.#isClosed = true
    this.#endAll(closing())
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
    void this.#look()
  }

  /** A journal that cannot be read ends the readers: they come again, and hear why. */
  async #look(): Promise<void> {
    try {
      while (this.#readers.size > 0) {
        const groups = await this.#options.store.readJournal([...this.#chains.values()], GROUPS_AT_ONCE)
        if (groups.length > 0) await this.#tell(groups)
        if (groups.length < GROUPS_AT_ONCE) await this.#pause()
      }
    } catch {
      this.#endAll(fault('not_ready', 'The journal cannot be read now.', { retryAfterMs: 1_000 }))
    } finally {
      this.#started = undefined
    }
  }

  async #tell(groups: readonly JournalGroup[]): Promise<void> {
    await this.#follow(groups)
    const readers = [...this.#readers]
    const changes = await this.#changesIn(groups, ({ tenant }) => readers.some((each) => each.isFor(tenant)))
    const cursor = cursorOf(this.#chains)
    for (const reader of this.#readers) reader.push(changes, cursor)
  }

  /** Keeps the places, and learns about writers that are new. */
  async #follow(groups: readonly JournalGroup[]): Promise<void> {
    if (groups.some(({ writer }) => !this.#chains.has(writer))) {
      for (const chain of await this.#options.store.journalChains()) {
        const group = this.#chains.get(chain.writer)?.group ?? -1
        this.#chains.set(chain.writer, { ...chain, group })
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
    const calls = await this.#options.store.glance([...byRecord.keys()])
    const found = new Map(calls.map((call) => [call.record, call]))
    return [...byRecord].flatMap(([record, own]) => {
      const call = found.get(record)
      return call === undefined
        ? []
        : [
            {
              call,
              events: own.map(({ type }) => type),
              code: codeOf(call, own),
              ...operatorIn(own),
            },
          ]
    })
  }

  /** What changed since a reader was here; `undefined` when that is too much, or its place is none of this store. */
  async #missedSince(after: string, filter: FollowedCalls): Promise<readonly ChangedCall[] | undefined> {
    const chains = await this.#options.store.journalChains()
    const places = placesOf(after, chains)
    if (places === undefined) return undefined
    const missed: JournalGroup[] = []
    for (;;) {
      const groups = await this.#options.store.readJournal([...places.values()], GROUPS_AT_ONCE)
      for (const group of groups) places.set(group.writer, group)
      missed.push(...groups)
      if (missed.length > MAX_MISSED) return undefined
      if (groups.length < GROUPS_AT_ONCE) break
    }
    return await this.#changesIn(missed, ({ tenant }) => isTenantOf(filter, tenant))
  }

  #endAll(why: ToolError): void {
    for (const reader of this.#readers) reader.end(why)
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        this.#wake = undefined
        resolve()
      }
      const timer = setTimeout(done, LOOK_MS)
      this.#wake = done
    })
  }
}

function closing(): ToolError {
  return fault('not_ready', 'The server is shutting down.', { retryAfterMs: 2_000 })
}

/** Somebody who follows calls. What it has not taken yet waits here, a call once. */
export class CallReader {
  readonly #filter: FollowedCalls
  readonly #clock: Clock
  readonly #onLeave: () => void
  readonly #changed = new Map<string, ChangedCall>()
  readonly #left = new Set<string>()
  /** What is told while it still learns what it missed, which is older. */
  #early: (() => void)[] | undefined = []
  #cursor: string | undefined
  #hasMissed = false
  #end: ToolError | undefined
  #wake: (() => void) | undefined

  constructor(filter: FollowedCalls, clock: Clock, onLeave: () => void) {
    this.#filter = filter
    this.#clock = clock
    this.#onLeave = onLeave
  }

  /** Whether something happened since its last place that it is not told. */
  get hasMissed(): boolean {
    return this.#hasMissed
  }

  get cursor(): string | undefined {
    return this.#cursor
  }

  /** Why nothing more comes; what waits can still be taken. */
  get ended(): ToolError | undefined {
    return this.#end
  }

  isFor(tenant: string): boolean {
    return isTenantOf(this.#filter, tenant)
  }

  begin(
    missed: readonly ChangedCall[],
    place: { readonly cursor: string | undefined; readonly hasMissed: boolean },
  ): void {
    const early = this.#early ?? []
    this.#early = undefined
    this.#hasMissed = place.hasMissed
    this.push(missed, place.cursor)
    for (const push of early) push()
  }

  push(changes: readonly ChangedCall[], cursor: string | undefined): void {
    if (this.#early !== undefined) {
      this.#early.push(() => this.push(changes, cursor))
      return
    }
    this.#cursor = cursor
    for (const change of changes) this.#keep(change)
    if (this.#changed.size + this.#left.size > MAX_WAITING) this.end(tooSlow())
    else if (this.#changed.size + this.#left.size > 0) this.#wake?.()
  }

  /** What has come, as soon as there is something; an empty page after `maxMs`, or at its end. */
  async take(maxMs: number, signal: AbortSignal): Promise<FeedPage> {
    if (this.#changed.size + this.#left.size === 0 && this.#end === undefined && !signal.aborted)
      await this.#arrival(maxMs, signal)
    const page = { changed: [...this.#changed.values()], left: [...this.#left], cursor: this.#cursor }
    this.#changed.clear()
    this.#left.clear()
    return page
  }

  end(why: ToolError): void {
    this.#end ??= why
    this.#onLeave()
    this.#wake?.()
  }

  leave(): void {
    this.#onLeave()
  }

  #keep(change: ChangedCall): void {
    const { record, state } = change.call
    if (!matchesButState(this.#filter, change.call, this.#clock.nowMs())) return
    const { states } = this.#filter
    if (states === undefined || states.includes(state)) {
      this.#left.delete(record)
      this.#changed.set(record, change)
    } else if (this.#changed.delete(record) || statesBefore(change).some((before) => states.includes(before)))
      this.#left.add(record)
  }

  #arrival(maxMs: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        this.#wake = undefined
        resolve()
      }
      const timer = setTimeout(done, maxMs)
      signal.addEventListener('abort', done, { once: true })
      this.#wake = done
    })
  }
}

function tooSlow(): ToolError {
  return fault('rate_limited', `More than ${MAX_WAITING} changed calls waited to be read. List calls again.`)
}

function isTenantOf({ tenant }: FollowedCalls, other: string): boolean {
  return tenant === undefined || tenant === other
}

/** An event that changed a call. */
type CallChange = Extract<JournalEvent, { readonly record: string; readonly attempt: number }>

/** That somebody looked changes nothing, and what a limit refused is no call. */
const UNCHANGED: ReadonlySet<JournalEvent['type']> = new Set(['call.shown', 'call.refused'])

function isChange(event: JournalEvent): event is CallChange {
  return 'record' in event && !UNCHANGED.has(event.type)
}

function operatorIn(events: readonly CallChange[]): { readonly by?: string } {
  for (const event of events) {
    const tells =
      event.type === 'call.claimed' || event.type === 'call.parked' || event.type === 'call.succeeded'
    if (tells && event.by !== undefined) return { by: event.by }
  }
  return {}
}

/** The states that a call was in before an event, where it was in one. */
const BEFORE: Partial<Record<CallChange['type'], readonly CallState[]>> = {
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
  const isAgain = call.attempt > 1 && events.includes('call.claimed')
  return [...events.flatMap((type) => BEFORE[type] ?? []), ...(isAgain ? (['released'] as const) : [])]
}

/** Why a call failed: its outcome is sealed, and the journal says it. */
function codeOf({ state }: CallGlance, events: readonly CallChange[]): ErrorCode | undefined {
  if (state !== 'failed' && state !== 'released') return undefined
  for (const event of events.toReversed()) {
    if ('code' in event && event.type !== 'call.late') return event.code
    if (event.type === 'call.settled') return 'tool_failed'
  }
  return undefined
}

/** More writers than these at once have no cursor: it has to fit into a header. */
const MAX_PLACES = 200
const CURSOR = /^\d{1,15}(?:\.\d{1,15}-\d{1,15}){0,200}$/

/**
 * One place per chain that may still grow, and the number of the newest chain. Writers are numbered in the order in
 * which they begin, so a chain that a cursor does not name had ended, or began later.
 */
function cursorOf(chains: ReadonlyMap<string, JournalChain>): string | undefined {
  const all = [...chains.values()]
  const open = all.filter(({ hasEnded, group }) => !hasEnded && group >= 0)
  if (open.length > MAX_PLACES) return undefined
  const newest = all.reduce((most, { no }) => Math.max(most, no), 0)
  return [newest, ...open.map(({ no, group }) => `${no}-${group}`)].join('.')
}

/** `undefined` for a text that is no cursor of this store. */
function placesOf(cursor: string, chains: readonly JournalChain[]): Map<string, JournalPosition> | undefined {
  if (!CURSOR.test(cursor)) return undefined
  const [newest = '', ...named] = cursor.split('.')
  const places = new Map(named.map((place) => place.split('-').map(Number)).map(([no, group]) => [no, group]))
  const known = new Set(chains.map(({ no }) => no))
  if (
    Number(newest) > Math.max(0, ...known) ||
    [...places.keys()].some((no) => no === undefined || !known.has(no))
  )
    return undefined
  return new Map(
    chains.flatMap(({ no, writer, group }) => {
      const place = places.get(no) ?? (no > Number(newest) ? undefined : group)
      return place === undefined ? [] : [[writer, { writer, group: place }]]
    }),
  )
}
