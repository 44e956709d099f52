import { setTimeout as sleep } from 'node:timers/promises'
import type { JournalHead } from '#kernel/journal/events'
import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import { generationOfTag, type KeyRing, type ResealableRows } from '#kernel/store/key-ring'
import type { StoreModule } from '#kernel/store/module'
import { bytes, integer, optionalBytes, optionalInteger, optionalText, text } from '#kernel/store/rows'

/**
 * The change of `COLLET_KEY` (`collet store rekey`). Each step is one transaction, so an interrupted change continues where it
 * stopped: the next generation of keys is announced, used once every writer can read it, and is the only one in use once nothing
 * is left under earlier keys. Every gateway calls `follow` about once a second.
 */

const { get, all, write } = statements<keyof typeof queries>()
const { all: allOf } = statements<string>()

/** Longer than any process takes to load new keys. Waiting is needed because processes that only read do not acknowledge keys. */
const SETTLE_MS = 3_000
const CHECK_EVERY_MS = 100
/** Small enough that a page never delays calls that wait for their commit. */
const PAGE_ROWS = 100

/** Rows of this module that a change of the key seals again. */
const resealing: readonly ResealableRows[] = [
  {
    ...{ what: 'ends of earlier keys', page: 'closingsAfter', start: [0] },
    after: (row) => [integer(row, 'no')],
    isDue: (row, keys) => keys.isDue('closings', bytes(row, 'closing'), closingContext(integer(row, 'no'))),
    *reseal({ keys }, row) {
      const no = integer(row, 'no')
      yield* write('closeGeneration', keys.reseal('closings', bytes(row, 'closing'), closingContext(no)), no)
    },
  },
]

type PageStart = ResealableRows['start']

export interface KeyStatus {
  /** The generation that new data is sealed under. */
  readonly generation: number
  readonly hasOldKey: boolean
  /** `none`: no change is in progress. `not begun`: the store still uses the old key. */
  readonly step: 'none' | 'not begun' | 'announced' | 'sealing'
  /** Rows under earlier keys that will be sealed again. */
  readonly due: number
  /** Writers that the next step waits for. */
  readonly writers: readonly LaggingWriter[]
}

interface KeyChangeWork {
  readonly by: string
  nowMs(): number
  onProgress(progress: KeyProgress): void
  readonly maxWaitMs: number
}

export type KeyProgress =
  | { readonly step: 'announced' }
  | { readonly step: 'sealing'; readonly what: string; readonly done: number; readonly total: number }

/** A living writer that delays a change of the key. */
export interface LaggingWriter {
  readonly writer: string
  /** `host:port pid 1234`, if it is known. */
  readonly place: string | undefined
  readonly startedMs: number
}

export type KeyChangeEnd =
  | { readonly kind: 'done'; readonly generation: number; readonly resealed: number }
  /** Everything is already under the current key. */
  | { readonly kind: 'nothing' }
  /** These writers were started without the new key; nothing was changed. */
  | { readonly kind: 'lacking'; readonly writers: readonly LaggingWriter[] }
  /** These writers did not load the new keys in time; finished steps stay done. */
  | { readonly kind: 'waiting'; readonly writers: readonly LaggingWriter[] }

export function openKeyChange({ keys, exclusive, read, engine, chain, definition }: StoreContext) {
  const loadKeys = read(() => keys.load())
  const ownRow = read(() => get('writerKeysOf', chain.no))
  const unended = read(() => all('unendedWriters'))
  const newestRow = read(() => get('newestGeneration'))
  const readPage = read((table: ResealableRows, after: PageStart) => allOf(table.page, ...after, PAGE_ROWS))
  const acknowledge = exclusive(
    () => '',
    (_group: CommitGroup, writer: number, knows: number, uses: number) =>
      write('acknowledgeKeys', knows, uses, writer),
  )
  const begin = exclusive(() => '', beginChange)
  const activate = exclusive(() => '', activateNewest)
  const reseal = exclusive(() => '', resealPage)
  const retire = exclusive(() => '', retireEarlier)

  const follow = async (): Promise<void> => {
    await loadKeys()
    const row = chain.isStarted ? await ownRow() : undefined
    if (row === undefined) return
    const [knows, uses] = [keys.newest.no, keys.current.no]
    if (integer(row, 'knows') !== knows || integer(row, 'uses') !== uses)
      await acknowledge(chain.no, knows, uses)
  }

  /** Living writers that have not yet reached a step. */
  const lagging = async (hasReached: (row: Row) => boolean): Promise<LaggingWriter[]> => {
    const found: LaggingWriter[] = []
    for (const row of await unended()) {
      const id = text(row, 'id')
      if (hasReached(row) || !(await engine.isAlive(id))) continue
      found.push({ writer: id, place: optionalText(row, 'place'), startedMs: integer(row, 'started_at') })
    }
    return found
  }

  const [newKey = ''] = keys.holds
  const holdsNewKey = (row: Row): boolean => text(row, 'holds').split(' ').includes(newKey)

  /** Writers that a step of the change waits for. */
  const waitedFor = {
    none: async () => [],
    'not begun': () => lagging(holdsNewKey),
    announced: () => lagging((row) => integer(row, 'knows') >= keys.newest.no),
    sealing: () => lagging((row) => integer(row, 'uses') >= keys.current.no),
  } satisfies Record<KeyStatus['step'], () => Promise<LaggingWriter[]>>

  const waitFor = async (hasReached: (row: Row) => boolean, maxWaitMs: number): Promise<LaggingWriter[]> => {
    const untilMs = performance.now() + maxWaitMs
    for (;;) {
      await follow()
      const writers = await lagging(hasReached)
      if (writers.length === 0 || performance.now() > untilMs) return writers
      await sleep(CHECK_EVERY_MS)
    }
  }

  const walk = async (
    visit: (table: ResealableRows, rows: readonly Row[], after: PageStart) => Promise<void> | void,
  ) => {
    for (const table of definition.resealing) {
      for (let after: PageStart | undefined = table.start; after !== undefined; ) {
        const rows: readonly Row[] = await readPage(table, after)
        await visit(table, rows, after)
        const last = rows.at(-1)
        after = last === undefined || rows.length < PAGE_ROWS ? undefined : table.after(last)
      }
    }
  }

  const countDue = async (): Promise<number> => {
    let due = 0
    await walk((table, rows) => {
      due += rows.filter((row) => table.isDue(row, keys)).length
    })
    return due
  }

  const resealAll = async ({ nowMs, onProgress }: KeyChangeWork): Promise<number> => {
    const total = await countDue()
    let done = 0
    await walk(async (table, rows, after) => {
      if (!rows.some((row) => table.isDue(row, keys))) return
      done += await reseal(table, after, nowMs())
      onProgress({ step: 'sealing', what: table.what, done, total: Math.max(done, total) })
    })
    return done
  }

  return {
    /** Loads keys that other processes added, and acknowledges them. */
    follow,
    async status(): Promise<KeyStatus> {
      await follow()
      const { newest, current, isUnderOldKey, hasOldKey } = keys
      const remaining = isUnderOldKey ? 'not begun' : newest !== current ? 'announced' : 'sealing'
      const step = remaining === 'sealing' && current.floor === current.no ? 'none' : remaining
      return {
        generation: current.no,
        hasOldKey,
        step,
        due: step === 'none' ? 0 : await countDue(),
        writers: await waitedFor[step](),
      }
    },
    /** Does the remaining steps while calls are served. It may be interrupted at any time and started again. */
    async rotate(work: KeyChangeWork): Promise<KeyChangeEnd> {
      const { by, nowMs, onProgress, maxWaitMs } = work
      await follow()
      if (keys.isUnderOldKey) {
        const writers = await lagging(holdsNewKey)
        if (writers.length > 0) return { kind: 'lacking', writers }
        await begin(by, nowMs())
        await follow()
      }
      if (keys.newest !== keys.current) {
        const { no } = keys.newest
        onProgress({ step: 'announced' })
        const writers = await waitFor((row) => integer(row, 'knows') >= no, maxWaitMs)
        if (writers.length > 0) return { kind: 'waiting', writers }
        const announcedMs = integer((await newestRow()) ?? {}, 'created_at')
        await sleep(Math.max(0, Math.min(SETTLE_MS, announcedMs + SETTLE_MS - nowMs())))
        await activate(by, nowMs())
        await follow()
      }
      const { no, floor } = keys.current
      if (floor === no) return { kind: 'nothing' }
      let resealed = 0
      for (;;) {
        const writers = await waitFor((row) => integer(row, 'uses') >= no, maxWaitMs)
        if (writers.length > 0) return { kind: 'waiting', writers }
        resealed += await resealAll(work)
        const dead = (await unended()).filter((row) => integer(row, 'uses') < no)
        if (!(await retire(by, nowMs(), dead))) continue
        await follow()
        return { kind: 'done', generation: no, resealed }
      }
    },
  }
}

export type KeyChangeStore = ReturnType<typeof openKeyChange>

/** Puts everything under the new master key, and adds a generation that holders of the old key have never seen. */
function* beginChange(group: CommitGroup, by: string, atMs: number): Steps<void> {
  const { keys } = group
  yield* keys.load()
  if (!keys.isUnderOldKey) return
  yield* keys.rewrap()
  if (keys.newest === keys.current) yield* keys.announce(atMs)
  group.append({ type: 'keys.announced', at: atMs, by, generation: keys.current.no + 1 })
}

function* activateNewest(group: CommitGroup, by: string, atMs: number): Steps<void> {
  const { keys } = group
  yield* keys.load()
  const { newest } = keys
  if (newest.state !== 'announced') return
  yield* keys.change({ ...newest, state: 'current' })
  group.append({ type: 'keys.activated', at: atMs, by, generation: newest.no })
}

function* resealPage(
  group: CommitGroup,
  table: ResealableRows,
  after: PageStart,
  atMs: number,
): Steps<number> {
  let resealed = 0
  for (const row of yield* allOf(table.page, ...after, PAGE_ROWS)) {
    if (!table.isDue(row, group.keys)) continue
    yield* table.reseal(group, row, atMs)
    resealed += 1
  }
  return resealed
}

/** Checks the writers again inside the transaction, because a writer that is not among the dead may still write under earlier keys. */
function* retireEarlier(group: CommitGroup, by: string, atMs: number, dead: readonly Row[]): Steps<boolean> {
  const { keys } = group
  yield* keys.load()
  const { current } = keys
  if (current.floor === current.no) return true
  for (const row of yield* all('unendedWriters'))
    if (integer(row, 'uses') < current.no && !dead.some(({ id }) => id === row.id)) return false
  for (let no = current.floor; no < current.no; no += 1) {
    const closing = Buffer.from(JSON.stringify(yield* headsUnder(no)))
    yield* write('closeGeneration', keys.seal('closings', closing, closingContext(no)), no)
    yield* keys.change({ ...keys.of(no), state: 'past' })
  }
  yield* keys.change({ ...current, floor: current.no })
  group.append({ type: 'keys.rotated', at: atMs, by, generation: current.no })
  return true
}

/** The last group of each chain under a generation. Generations only rise along a chain, so a binary search finds it. */
function* headsUnder(generation: number): Steps<readonly JournalHead[]> {
  const heads: JournalHead[] = []
  for (const chain of yield* all('chains')) {
    const no = integer(chain, 'no')
    let [low, high] = [-1, optionalInteger(chain, 'last') ?? -1]
    let head: JournalHead | undefined
    // Begins with the newest group, because a writer that ended before the change has nothing under later keys.
    for (let group = high; low < high; group = Math.ceil((low + high) / 2)) {
      const row = yield* get('linkAt', no, group)
      const link = row === undefined ? '' : text(row, 'link')
      if (generationOfTag(link) > generation) {
        high = group - 1
        continue
      }
      low = group
      head = generationOfTag(link) === generation ? { writer: text(chain, 'id'), group, link } : undefined
    }
    if (head !== undefined) heads.push(head)
  }
  return heads
}

/** The ends of all chains under a past generation. */
export interface Closing {
  readonly generation: number
  readonly heads: readonly JournalHead[]
}

/** A missing or changed closing counts as empty, so that verification reports everything under its keys. */
export function* readClosings(keys: KeyRing): Steps<readonly Closing[]> {
  return (yield* all('keyGenerations')).flatMap((row) => {
    const generation = integer(row, 'no')
    return keys.find(generation)?.state === 'past' ? [{ generation, heads: headsIn(row, keys) }] : []
  })
}

function headsIn(row: Row, keys: KeyRing): readonly JournalHead[] {
  const closing = optionalBytes(row, 'closing')
  if (closing === null) return []
  try {
    return JSON.parse(keys.open('closings', closing, closingContext(integer(row, 'no'))).toString('utf8'))
  } catch {
    return []
  }
}

function closingContext(generation: number): string {
  return JSON.stringify(['closing', generation])
}

const queries = {
  writerKeysOf: 'SELECT knows, uses FROM writer_keys WHERE writer = ?',
  acknowledgeKeys: 'UPDATE writer_keys SET knows = ?, uses = ? WHERE writer = ?',
  unendedWriters: `SELECT w.id, w.place, w.started_at, k.holds, k.knows, k.uses FROM writers w JOIN writer_keys k ON k.writer = w.no
    WHERE w.ended_at IS NULL ORDER BY w.no`,
  newestGeneration: 'SELECT created_at FROM key_generations ORDER BY generation DESC LIMIT 1',
  closingsAfter:
    'SELECT generation AS no, closing FROM key_generations WHERE generation > ? AND closing IS NOT NULL ORDER BY generation LIMIT ?',
  closeGeneration: 'UPDATE key_generations SET closing = ? WHERE generation = ?',
} as const

export const rotationModule: StoreModule = { name: 'key change', queries, resealing }
