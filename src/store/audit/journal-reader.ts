import { setImmediate as nextTurn } from 'node:timers/promises'
import { defined } from '#kernel/base/json'
import type { DataExported, JournalEvent, JournalPosition } from '#kernel/journal/events'
import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { StoreModule } from '#kernel/store/module'
import { integer, openReasonIn, optionalInteger, text } from '#kernel/store/rows'
import {
  isVisible,
  type JournalFilter,
  type JournalSight,
  matchesJournal,
  patternOf,
} from './journal-facts.ts'

/**
 * Reads the journal from its newest event to its oldest, for the journal's page and for exports. It merges the chains of all
 * writers by the time of their groups and reads each chain in small pieces, so that memory stays constant and calls are served
 * in between. No index exists for searches in the journal, so that it costs calls nothing: a page searches a limited number of
 * groups, and states how far it came.
 */

const { get, all } = statements<keyof typeof queries>()

/** A place between two events; a page that starts there has only older events. */
export interface JournalCursor {
  readonly atMs: number
  /** Number of the writer, and of the group in its chain. */
  readonly no: number
  readonly group: number
  /** Index of an event in its group. */
  readonly index: number
}

export interface JournalSearch extends JournalFilter {
  readonly sight: JournalSight
  /** Only groups committed at this time or later. */
  readonly sinceMs?: number | undefined
  /** Only groups committed before this time. */
  readonly untilMs?: number | undefined
  readonly before?: JournalCursor | undefined
}

export interface JournalEntry extends JournalPosition {
  readonly index: number
  readonly link: string
  readonly event: JournalEvent
}

interface JournalPage {
  readonly entries: readonly JournalEntry[]
  /** Where the next page starts; absent at the end of the search. */
  readonly next?: JournalCursor
  /** The search has seen every group since this time; absent at the end of the search. */
  readonly searchedToMs?: number
}

/** Groups that one page searches, which takes about a tenth of a second. */
const MAX_SEARCHED = 20_000
const FIRST_PIECE = 16
/** Groups in one statement: a few milliseconds of work. */
const MAX_PIECE = 256

export function openJournalReader(context: Pick<StoreContext, 'read' | 'keys' | 'exclusive'>) {
  return {
    /** Journals an export, before its first row is sent. */
    recordExport: context.exclusive(() => '', recordExport),
    async readPage(search: JournalSearch, limit: number): Promise<JournalPage> {
      const entries: JournalEntry[] = []
      let last: JournalCursor | undefined
      let searched = 0
      for await (const { found, end } of searchNewest(context, search)) {
        for (const { entry, cursor } of found) {
          entries.push(entry)
          if (entries.length === limit) return { entries, next: cursor, searchedToMs: cursor.atMs }
        }
        last = end
        searched += 1
        if (searched === MAX_SEARCHED) return { entries, next: last, searchedToMs: last.atMs }
      }
      return { entries }
    },
    /** Every matching event, newest first, in batches of one commit group; ends when `signal` is aborted. */
    async *readAll(search: JournalSearch, signal: AbortSignal): AsyncGenerator<readonly JournalEntry[]> {
      for await (const { found } of searchNewest(context, search)) {
        if (signal.aborted) return
        if (found.length > 0) yield found.map(({ entry }) => entry)
      }
    },
  }
}

export type JournalReader = ReturnType<typeof openJournalReader>

/** An export, as it is journaled. */
interface ExportRecord extends Pick<DataExported, 'what' | 'format' | 'filter' | 'by'> {
  readonly tenant: string | undefined
  readonly atMs: number
}

// biome-ignore lint/correctness/useYield: only the journal is written
function* recordExport(group: CommitGroup, { atMs, tenant, ...facts }: ExportRecord): Steps<void> {
  group.append({ type: 'data.exported', at: atMs, ...defined({ tenant }), ...facts })
}

interface SearchedGroup {
  readonly found: readonly { readonly entry: JournalEntry; readonly cursor: JournalCursor }[]
  /** The place after the group. */
  readonly end: JournalCursor
}

async function* searchNewest(
  { read, keys }: Pick<StoreContext, 'read' | 'keys'>,
  search: JournalSearch,
): AsyncGenerator<SearchedGroup> {
  const { sinceMs = Number.MIN_SAFE_INTEGER, before, sight } = search
  const pattern = patternOf(search)
  const readPiece = read((chain: UnreadChain) => all('journalBefore', chain.no, chain.next, chain.piece))
  let chains = await read(() => chainsBefore(search))()
  for (let chain = newestOf(chains); chain !== undefined; chain = newestOf(chains)) {
    const { no, writer } = chain
    const row = chain.rows.shift()
    if (row === undefined) {
      chain.rows = [...(await readPiece(chain))]
      chain.piece = Math.min(MAX_PIECE, chain.piece * 2)
      const [first] = chain.rows
      if (first === undefined) chains = chains.filter((other) => other !== chain)
      else chain.boundMs = Math.min(chain.boundMs, integer(first, 'at'))
      // SQLite runs in this thread, so other work gets a turn between two pieces.
      await nextTurn()
      continue
    }
    const [group, atMs] = [integer(row, 'n'), integer(row, 'at')]
    chain.next = group
    const [following] = chain.rows
    chain.boundMs = Math.min(atMs, following === undefined ? atMs : integer(following, 'at'))
    if (atMs < sinceMs) {
      chains = chains.filter((other) => other !== chain)
      continue
    }
    const place = { atMs, no, group }
    const found: SearchedGroup['found'][number][] = []
    const json = text(row, 'events')
    if (pattern.test(json)) {
      const events: readonly JournalEvent[] = JSON.parse(json)
      const end = before?.no === no && before.group === group ? before.index : events.length
      for (const [index, event] of [...events.entries()].slice(0, end).reverse()) {
        if (!isVisible(event, sight) || !matchesJournal(event, search)) continue
        const entry = { writer, group, index, link: text(row, 'link'), event: openReasonIn(keys, event) }
        found.push({ entry, cursor: { ...place, index } })
      }
    }
    yield { found, end: { ...place, index: 0 } }
  }
}

/** The part of a chain that the search has not reached. */
interface UnreadChain {
  readonly no: number
  readonly writer: string
  /** The search continues with the group before this one. */
  next: number
  /** No unread group is newer than this. */
  boundMs: number
  piece: number
  rows: Row[]
}

function newestOf(chains: readonly UnreadChain[]): UnreadChain | undefined {
  const [first, ...others] = chains
  if (first === undefined) return undefined
  return others.reduce((newest, chain) => (isNewer(chain, newest) ? chain : newest), first)
}

function isNewer(one: UnreadChain, other: UnreadChain): boolean {
  return one.boundMs > other.boundMs || (one.boundMs === other.boundMs && one.no > other.no)
}

/** Chains with groups in the searched time, each at its last group before the cursor. */
function* chainsBefore({ before, sinceMs, untilMs }: JournalSearch): Steps<UnreadChain[]> {
  const chains: UnreadChain[] = []
  for (const row of yield* all('chainEnds')) {
    const [no, writer] = [integer(row, 'no'), text(row, 'id')]
    const [last, lastAtMs] = [optionalInteger(row, 'last'), optionalInteger(row, 'last_at')]
    if (last === undefined || lastAtMs === undefined || lastAtMs < (sinceMs ?? lastAtMs)) continue
    const end = endOf(no, before, untilMs)
    if (end !== undefined && integer(row, 'started_at') > end.atMs) continue
    const isOwn = before?.no === no
    // The group of the cursor is read again if events before the cursor are left in it.
    const own = isOwn ? before.group + (before.index > 0 ? 1 : 0) : undefined
    const next =
      own ?? (end === undefined || lastAtMs < end.atMs ? last + 1 : yield* firstFrom(no, end.atMs, last + 1))
    chains.push({
      no,
      writer,
      next,
      boundMs: Math.min(lastAtMs, end?.atMs ?? lastAtMs),
      piece: FIRST_PIECE,
      rows: [],
    })
  }
  return chains
}

/** The time before which a chain's groups are searched: groups of one time are ordered by the number of their writer. */
function endOf(
  no: number,
  before: JournalCursor | undefined,
  untilMs: number | undefined,
): { readonly atMs: number } | undefined {
  const cursorMs = before && before.atMs + (no < before.no ? 1 : 0)
  const ends = [cursorMs, untilMs].filter((atMs) => atMs !== undefined)
  return ends.length === 0 ? undefined : { atMs: Math.min(...ends) }
}

/** The number of the first group of a chain that was committed at this time or later, by binary search. */
export function* firstFrom(no: number, atMs: number, end: number): Steps<number> {
  let [low, high] = [0, end]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const row = yield* get('groupFrom', no, middle)
    if (row === undefined || integer(row, 'at') >= atMs) high = middle
    else low = integer(row, 'n') + 1
  }
  return low
}

const queries = {
  journalBefore:
    'SELECT n, at, events, link FROM commit_groups WHERE writer = ? AND n < ? ORDER BY n DESC LIMIT ?',
  groupFrom: 'SELECT n, at FROM commit_groups WHERE writer = ? AND n >= ? ORDER BY n LIMIT 1',
  chainEnds: `SELECT w.no, w.id, w.started_at,
      (SELECT max(n) FROM commit_groups WHERE writer = w.no) AS last,
      (SELECT at FROM commit_groups WHERE writer = w.no ORDER BY n DESC LIMIT 1) AS last_at
    FROM writers w ORDER BY w.no`,
} as const

export const journalReaderModule: StoreModule = { name: 'journal reader', queries }
