import type { JournalHead } from '#kernel/journal/events'
import { type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import { CHAIN_START, checkpointSignature, linkOf } from '#kernel/store/journal'
import { generationOfTag, type KeyRing } from '#kernel/store/key-ring'
import type { EventFacts, GuardedTable, StoreModule } from '#kernel/store/module'
import { allRows, foreignTriggers, nameOfRow, type RowGuard } from '#kernel/store/row-mac'
import { integer, optionalBytes, text } from '#kernel/store/rows'
import { type Closing, readClosings } from './rotation.ts'
import { texts } from './steps.ts'

/**
 * Verification of a store (`collet journal verify`, rule 15): every chain of the journal from its start to its head, and every
 * guarded row, against the keys. It only reads; its result states what it cannot detect.
 */

const { get, all } = statements<keyof typeof queries>()

/** Rows per page: a few milliseconds of work, which block the thread if calls are served at the same time. */
const PAGE_ROWS = 250

/** The first group of a chain that is not as it was written. */
interface BadGroup {
  readonly writer: string
  readonly group: number
  readonly reason: string
}

/** A guarded row that is not as it was written. */
interface BadRow {
  /** The row's table and primary key. */
  readonly row: string
  readonly reason: string
}

interface VerificationWatch {
  /** Aborts the verification, which then rejects with the reason. */
  readonly signal: AbortSignal
  /** Called from time to time with the number of groups checked so far. */
  onGroups(checked: number): void
}

export interface JournalVerification {
  readonly ok: boolean
  /** Number of guarded rows checked: approvals, decisions, keys, their owners, pins. */
  readonly rows: number
  readonly badRows: readonly BadRow[]
  readonly chains: number
  readonly groups: number
  readonly events: number
  readonly firstBad?: BadGroup | undefined
  /** The newest link of each chain. Keep one elsewhere to detect later that the end of the chain was removed. */
  readonly heads: readonly JournalHead[]
  /** What this check cannot detect, as text. */
  readonly cannotSee: readonly string[]
}

export function openVerification(context: StoreContext) {
  return {
    /** `head` is the head of a chain, kept elsewhere (rule 15). */
    verify: context.snapshot((head?: JournalHead) => verifyJournal(context, head)),
    /** Verifies in pieces, and serves calls in between. */
    verifyInPieces: ({ signal, onGroups }: VerificationWatch) =>
      context.engine.walk(verifyJournal(context, undefined, onGroups), signal),
  }
}

export type Verification = ReturnType<typeof openVerification>

/** Walks every chain from its start, or from its signed checkpoint, to its head (rule 15). */
export function* verifyJournal(
  { keys, guard }: Pick<StoreContext, 'keys' | 'guard'>,
  keptHead: JournalHead | undefined,
  onGroups: (checked: number) => void = () => undefined,
): Steps<JournalVerification> {
  yield* keys.load()
  const closings = yield* readClosings(keys)
  const walks: ChainWalk[] = []
  for (const row of yield* all('allWriters')) {
    const before = walks.reduce((sum, walk) => sum + walk.groups, 0)
    const walk = new ChainWalk(keys, guard.tables, row)
    yield* walk.toHead((groups) => onGroups(before + groups))
    walks.push(walk)
  }
  const chains = new Map(walks.map((walk) => [walk.writer, walk]))
  const expected = [...walks.flatMap((walk) => walk.seenHeads), ...closings.flatMap(({ heads }) => heads)]
  const firstBad =
    walks.find((walk) => walk.bad !== undefined)?.bad ??
    (yield* firstBroken([...expected, ...(keptHead === undefined ? [] : [keptHead])], chains)) ??
    firstUnrecorded(walks) ??
    firstUnderPastKeys(walks, closings)
  const { rows, badRows } = yield* verifyRows(guard, new Map(walks.flatMap((walk) => [...walk.ends])))
  return {
    ok: firstBad === undefined && badRows.length === 0,
    rows,
    badRows,
    chains: walks.length,
    groups: walks.reduce((sum, walk) => sum + walk.groups, 0),
    events: walks.reduce((sum, walk) => sum + walk.events, 0),
    firstBad,
    heads: walks.flatMap((walk) => (walk.head === undefined ? [] : [walk.head])),
    cannotSee: [
      'groups removed from the end of a chain after its head was last recorded elsewhere (compare with --head)',
      'rows of approvals, keys and pins that were deleted or set back to an earlier state, if the journal does not record their end: it records none for pins, and keeps none beyond its retention',
      'rows of calls, runs, run events and sessions that were changed, deleted or set back: their events are in the journal, but this check does not compare rows with events',
      'sealed contents (inputs, outcomes, vault entries, options of sources, answers to requests) and the wrapped data keys: changing them is noticed when they are read, deleting them is not',
      "rows without a MAC: denials in the audit stream, budgets, open challenges and consents, unsent webhook messages, the time of a key's last use",
      'the whole database replaced by an older copy (compare with --head)',
      'changes made by someone who holds the key',
    ],
  }
}

/** Checks that every guarded row has a valid MAC, and that it has ended if the journal says so. */
function* verifyRows(
  guard: RowGuard,
  ends: ReadonlyMap<string, string>,
): Steps<Pick<JournalVerification, 'rows' | 'badRows'>> {
  const badRows: BadRow[] = (yield* foreignTriggers()).map((name) => ({
    row: `trigger ${name}`,
    reason: 'was not created by Collet',
  }))
  let rows = 0
  for (const table of guard.tables) {
    for (const row of yield* allRows(table)) {
      rows += 1
      const name = nameOfRow(table, row)
      const end = ends.get(name)
      if (!guard.isOwn(table, row)) {
        badRows.push({ row: name, reason: 'was changed by someone without the key' })
      } else if (end !== undefined && end !== table.endOf?.(row)) {
        badRows.push({ row: name, reason: `was set back: the journal says that it is ${end}` })
      }
    }
  }
  return { rows, badRows }
}

/** The name of the row that an event ended for good, and the state that the row must have afterwards. */
function endedBy(tables: readonly GuardedTable[], event: EventFacts): readonly [string, string] | undefined {
  for (const table of tables) {
    const ended = table.endedBy?.(event)
    if (ended !== undefined) return [nameOfRow(table, ended.row), ended.state]
  }
  return undefined
}

/** A writer's row names the writer that recorded its head. If that writer's chain lacks the head, the recording was prevented. */
function firstUnrecorded(walks: readonly ChainWalk[]): BadGroup | undefined {
  const byNo = new Map(walks.map((walk) => [walk.no, walk]))
  for (const { writer, recorded } of walks) {
    const recorder = byNo.get(recorded.by)
    if (recorded.n < 0 || recorder === undefined || recorder.isTruncated) continue
    const isSeen = recorder.seenHeads.some((head) => head.writer === writer && head.group === recorded.n)
    if (!isSeen)
      return { writer, group: recorded.n, reason: 'its head was never recorded, although its row says so' }
  }
  return undefined
}

/** Nothing may be written under a past generation, even by a process that still has its keys. */
function firstUnderPastKeys(walks: readonly ChainWalk[], closings: readonly Closing[]): BadGroup | undefined {
  for (const { generation, heads } of closings) {
    const ends = new Map(heads.map(({ writer, group }) => [writer, group]))
    for (const { writer, lastUnder } of walks) {
      const group = lastUnder.get(generation)
      if (group !== undefined && group > (ends.get(writer) ?? -1))
        return { writer, group, reason: 'it was written under keys that were no longer in use' }
    }
  }
  return undefined
}

/** A head that was recorded elsewhere must still be in its chain. */
function* firstBroken(
  expected: readonly JournalHead[],
  chains: ReadonlyMap<string, ChainWalk>,
): Steps<BadGroup | undefined> {
  for (const { writer, group, link } of expected) {
    const chain = chains.get(writer)
    if (chain === undefined) return { writer, group, reason: 'the whole chain is missing' }
    const found = yield* chain.linkAt(group)
    if (found === 'forgotten') continue
    if (found === undefined) return { writer, group, reason: 'groups are missing at the end of the chain' }
    if (found !== link)
      return { writer, group, reason: 'the chain was replaced: its link is not the recorded one' }
  }
  return undefined
}

class ChainWalk {
  readonly #tables: readonly GuardedTable[]
  readonly writer: string
  bad: BadGroup | undefined
  head: JournalHead | undefined
  groups = 0
  events = 0
  /** Heads of other chains, which this chain's writer recorded when it started. */
  readonly seenHeads: JournalHead[] = []
  /** Rows that its events ended, with their final state. */
  readonly ends = new Map<string, string>()
  readonly no: number
  /** The group of this chain that another writer recorded when it started, according to the writer's row. */
  readonly recorded: { readonly n: number; readonly by: number }
  /** Its last group under each generation of keys. */
  readonly lastUnder = new Map<number, number>()
  readonly #keys: KeyRing
  #checkpoint = -1

  constructor(keys: KeyRing, tables: readonly GuardedTable[], row: Row) {
    this.#keys = keys
    this.#tables = tables
    this.no = integer(row, 'no')
    this.recorded = { n: integer(row, 'recorded_n'), by: integer(row, 'recorded_by') }
    this.writer = text(row, 'id')
  }

  /** Whether retention removed the beginning of the chain, with the heads recorded there. */
  get isTruncated(): boolean {
    return this.#checkpoint >= 0
  }

  /** The checked link of a group; `forgotten` if retention removed the group. */
  *linkAt(group: number): Steps<string | 'forgotten' | undefined> {
    if (group < this.#checkpoint) return 'forgotten'
    if (group === this.head?.group) return this.head.link
    const row = group < (this.head?.group ?? 0) ? yield* get('linkAt', this.no, group) : undefined
    return row === undefined ? undefined : text(row, 'link')
  }

  *toHead(onGroups: (checked: number) => void): Steps<void> {
    let { n, link } = yield* this.#start()
    for (;;) {
      const rows = this.bad === undefined ? yield* all('chainAfter', this.no, n, PAGE_ROWS) : []
      // Every writer's first change is its own start, so a chain is never empty.
      if (rows.length === 0 && this.head === undefined) this.#fail(0, 'the whole chain is missing')
      if (rows.length === 0) return
      for (const row of rows) {
        const found = this.#check(row, n + 1, link)
        if (found === undefined) return
        n += 1
        link = found
      }
      onGroups(this.groups)
    }
  }

  *#start(): Steps<{ readonly n: number; readonly link: string }> {
    const row = yield* get('checkpointOf', this.no)
    if (row === undefined) return { n: -1, link: CHAIN_START }
    const group = integer(row, 'n')
    const { link, signature } = texts(row, 'link', 'signature')
    const generation = this.#keys.find(generationOfTag(signature))
    if (
      generation === undefined ||
      generation.no < this.#keys.current.floor ||
      checkpointSignature(generation, { writer: this.writer, group, link }) !== signature
    ) {
      this.#fail(group, 'the checkpoint left by retention has a wrong signature')
    }
    this.#checkpoint = group
    this.#note(group, link)
    return { n: group, link }
  }

  /** Returns the group's link if it is correct. */
  #check(row: Row, expected: number, previous: string): string | undefined {
    const group = integer(row, 'n')
    if (group !== expected) return this.#fail(expected, 'the group is missing')
    const { events: eventsJson, link } = texts(row, 'events', 'link')
    const [id, atMs, callers] = [integer(row, 'id'), integer(row, 'at'), optionalBytes(row, 'callers')]
    const linked = { id, writer: this.writer, group, atMs, eventsJson, callers }
    const generation = this.#keys.find(generationOfTag(link))
    if (generation === undefined || linkOf(generation, previous, linked) !== link) {
      return this.#fail(group, 'its contents or the link before it were changed')
    }
    if (generation.no < generationOfTag(previous)) {
      return this.#fail(group, 'it was written under earlier keys than the group before it')
    }
    this.lastUnder.set(generation.no, group)
    this.#note(group, link)
    this.groups += 1
    this.#readEvents(eventsJson)
    return link
  }

  #readEvents(eventsJson: string): void {
    const events: readonly (EventFacts & { readonly heads?: readonly JournalHead[] })[] =
      JSON.parse(eventsJson)
    this.events += events.length
    for (const event of events) {
      // The first event of a writer names the heads of the other chains.
      if (event.type === 'writer.started') this.seenHeads.push(...(event.heads ?? []))
      const ended = endedBy(this.#tables, event)
      if (ended !== undefined) this.ends.set(...ended)
    }
  }

  #note(group: number, link: string): void {
    this.head = { writer: this.writer, group, link }
  }

  #fail(group: number, reason: string): undefined {
    this.bad ??= { writer: this.writer, group, reason }
    return undefined
  }
}

const queries = {
  allWriters: 'SELECT no, id, recorded_n, recorded_by FROM writers',
  chainAfter:
    'SELECT id, n, at, events, callers, link FROM commit_groups WHERE writer = ? AND n > ? ORDER BY n LIMIT ?',
  checkpointOf: 'SELECT n, link, signature FROM checkpoints WHERE writer = ?',
} as const

export const verifyModule: StoreModule = { name: 'verification', queries }
