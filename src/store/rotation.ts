import { setTimeout as sleep } from 'node:timers/promises'
import type { JournalHead } from '#kernel/journal/events'
import { generationOfTag } from '#kernel/store/encryption'
import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import type { KeyRing, Resealing } from '#kernel/store/key-ring'
import type { StoreModule } from '#kernel/store/module'
import { bytes, integer, optionalBytes, optionalInteger, optionalText, text } from '#kernel/store/rows'
import type { KeyChange, KeyChangeEnd, KeyProgress, KeyStatus, LaggingWriter } from '#store/ports/key-change'

const { get, all, write } = statements<keyof typeof queries>()
const { all: allOf } = statements<string>()

/** Longer than any process takes to look for new keys; those that only read do not say what they know. */
const SETTLE_MS = 3_000
const LOOK_EVERY_MS = 100
/** Small enough that a page never holds up calls that wait for their commit. */
const PAGE = 100

/** Rows of this module that a change of the key seals again. */
const resealing: readonly Resealing[] = [
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

/** Where a page begins. */
type Place = Resealing['start']

/**
 * The change of `COLLET_KEY`, in steps that each are one transaction, so that it goes on wherever it was cut: the next
 * generation is announced, used once every writer can read it, and is the only one once nothing is left under the others.
 */
export function sqlKeyChange({ keys, careful, read, engine, chain, definition }: StoreContext): KeyChange {
  const look = read(() => keys.load())
  const ownRow = read(() => get('writerKeysOf', chain.no))
  const unended = read(() => all('unendedWriters'))
  const newestRow = read(() => get('newestGeneration'))
  const readPage = read((of: Resealing, after: Place) => allOf(of.page, ...after, PAGE))
  const acknowledge = careful(() => '', acknowledgeKeys)
  const begin = careful(() => '', beginChange)
  const activate = careful(() => '', activateNewest)
  const reseal = careful(() => '', resealPage)
  const retire = careful(() => '', retireEarlier)

  const follow = async (): Promise<void> => {
    await look()
    const row = chain.isStarted ? await ownRow() : undefined
    if (row === undefined) return
    const [knows, uses] = [keys.newest.no, keys.current.no]
    if (integer(row, 'knows') !== knows || integer(row, 'uses') !== uses)
      await acknowledge(chain.no, knows, uses)
  }

  /** Writers that live and are not so far. */
  const lagging = async (isFar: (row: Row) => boolean): Promise<LaggingWriter[]> => {
    const found: LaggingWriter[] = []
    for (const row of await unended()) {
      const id = text(row, 'id')
      if (isFar(row) || !(await engine.isAlive(id))) continue
      found.push({ writer: id, place: optionalText(row, 'place'), startedMs: integer(row, 'started_at') })
    }
    return found
  }

  const holdsNewKey = (row: Row): boolean =>
    text(row, 'holds')
      .split(' ')
      .includes(keys.holds[0] ?? '')

  /** Writers that a step of the change waits for. */
  const waitedFor = {
    none: async () => [],
    'not begun': () => lagging(holdsNewKey),
    announced: () => lagging((row) => integer(row, 'knows') >= keys.newest.no),
    sealing: () => lagging((row) => integer(row, 'uses') >= keys.current.no),
  } satisfies Record<KeyStatus['step'], () => Promise<LaggingWriter[]>>

  const waitFor = async (isFar: (row: Row) => boolean, patienceMs: number): Promise<LaggingWriter[]> => {
    const untilMs = performance.now() + patienceMs
    for (;;) {
      await follow()
      const writers = await lagging(isFar)
      if (writers.length === 0 || performance.now() > untilMs) return writers
      await sleep(LOOK_EVERY_MS)
    }
  }

  /** Page by page, as far as there are rows. */
  const walk = async (visit: (of: Resealing, rows: readonly Row[], after: Place) => Promise<void> | void) => {
    for (const of of definition.resealing) {
      for (let after: Place | undefined = of.start; after !== undefined; ) {
        const rows: readonly Row[] = await readPage(of, after)
        await visit(of, rows, after)
        const last = rows.at(-1)
        after = last === undefined || rows.length < PAGE ? undefined : of.after(last)
      }
    }
  }

  const countDue = async (): Promise<number> => {
    let due = 0
    await walk((of, rows) => {
      due += rows.filter((row) => of.isDue(row, keys)).length
    })
    return due
  }

  const resealAll = async (nowMs: () => number, tell: (progress: KeyProgress) => void): Promise<number> => {
    const total = await countDue()
    let done = 0
    await walk(async (of, rows, after) => {
      if (!rows.some((row) => of.isDue(row, keys))) return
      done += await reseal(of, after, nowMs())
      tell({ step: 'sealing', what: of.what, done, total: Math.max(done, total) })
    })
    return done
  }

  return {
    follow,
    async status(): Promise<KeyStatus> {
      await follow()
      const { newest, current, isUnderOldKey, hasOldKey } = keys
      const left = isUnderOldKey ? 'not begun' : newest !== current ? 'announced' : 'sealing'
      const step = left === 'sealing' && current.floor === current.no ? 'none' : left
      return {
        generation: current.no,
        hasOldKey,
        step,
        due: step === 'none' ? 0 : await countDue(),
        writers: await waitedFor[step](),
      }
    },
    async rotate({ by, nowMs, tell, patienceMs }): Promise<KeyChangeEnd> {
      await follow()
      if (keys.isUnderOldKey) {
        const writers = await lagging(holdsNewKey)
        if (writers.length > 0) return { kind: 'lacking', writers }
        await begin(by, nowMs())
        await follow()
      }
      if (keys.newest !== keys.current) {
        const { no } = keys.newest
        tell({ step: 'announced' })
        const writers = await waitFor((row) => integer(row, 'knows') >= no, patienceMs)
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
        const writers = await waitFor((row) => integer(row, 'uses') >= no, patienceMs)
        if (writers.length > 0) return { kind: 'waiting', writers }
        resealed += await resealAll(nowMs, tell)
        const dead = (await unended())
          .filter((row) => integer(row, 'uses') < no)
          .map((row) => text(row, 'id'))
        if (!(await retire(by, nowMs(), dead))) continue
        await follow()
        return { kind: 'done', generation: no, resealed }
      }
    },
  }
}

function* acknowledgeKeys(_group: CommitGroup, writer: number, knows: number, uses: number): Steps<void> {
  yield* write('acknowledgeKeys', knows, uses, writer)
}

/** Everything under the new master key, and a generation that whoever had the old one has never seen. */
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

function* resealPage(group: CommitGroup, of: Resealing, after: Place, atMs: number): Steps<number> {
  let resealed = 0
  for (const row of yield* allOf(of.page, ...after, PAGE)) {
    if (!of.isDue(row, group.keys)) continue
    yield* of.reseal(group, row, atMs)
    resealed += 1
  }
  return resealed
}

/** Asked again in the transaction: a writer that is not among the dead may still write under earlier keys. */
function* retireEarlier(
  group: CommitGroup,
  by: string,
  atMs: number,
  dead: readonly string[],
): Steps<boolean> {
  const { keys } = group
  yield* keys.load()
  const { current } = keys
  if (current.floor === current.no) return true
  for (const row of yield* all('unendedWriters')) {
    if (integer(row, 'uses') < current.no && !dead.includes(text(row, 'id'))) return false
  }
  for (let no = current.floor; no < current.no; no += 1) {
    const closing = Buffer.from(JSON.stringify(yield* headsUnder(no)))
    yield* write('closeGeneration', keys.seal('closings', closing, closingContext(no)), no)
    yield* keys.change({ ...keys.of(no), state: 'past' })
  }
  yield* keys.change({ ...current, floor: current.no })
  group.append({ type: 'keys.rotated', at: atMs, by, generation: current.no })
  return true
}

/** The last group of each chain under a generation. Generations only rise along a chain, so it is searched by halves. */
function* headsUnder(generation: number): Steps<readonly JournalHead[]> {
  const heads: JournalHead[] = []
  for (const chain of yield* all('chains')) {
    const no = integer(chain, 'no')
    let [low, high] = [-1, optionalInteger(chain, 'last') ?? -1]
    let head: JournalHead | undefined
    // The newest first: a writer that ended before the change has nothing under later keys.
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

/** Where each chain ended under a generation that is past. */
export interface Closing {
  readonly generation: number
  readonly heads: readonly JournalHead[]
}

/** One that is missing or changed ends everything before it began, so that whatever is under its keys is found to be wrong. */
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
    const plain = keys.open('closings', closing, closingContext(integer(row, 'no'))).toString('utf8')
    const heads: readonly JournalHead[] = JSON.parse(plain)
    return heads
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
