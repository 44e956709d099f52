import { hash } from 'node:crypto'
import { BoundedMap } from '#kernel/base/bounded-map'
import { StoreError } from '#kernel/base/errors'
import { type CommitGroup, type Row, type Steps, type StoreContext, statements } from '#kernel/store/engine'
import { CHAIN_START, linkOf, openCallers } from '#kernel/store/journal'
import { generationOfTag, type KeyRing } from '#kernel/store/key-ring'
import type { PurgeStep, StoreModule } from '#kernel/store/module'
import { integer, optionalBytes, optionalInteger, text } from '#kernel/store/rows'
import { type BlockStatement, blockBytes } from '#receipts/format'
import { type BlockTree, growTree, type Leaf, leavesOf, MAX_LEAVES } from './block-tree.ts'

/**
 * Blocks of the journal: consecutive commit groups of one writer under one hash, each block linked to the one before it, so that a
 * signed receipt of one call fixes everything before it. Blocks are made after the commits, in small steps, and only from groups
 * whose own link (rule 15) is valid. `receipts.ts` proves calls with them; `server/audit/receipt-part.ts` makes them on a timer.
 */

const { get, all, write } = statements<keyof typeof queries | 'checkpointOf'>()

/** Groups in one statement, and in one block. */
const [GROUPS_AT_ONCE, MAX_GROUPS] = [32, 256]

/** A commit group, by the number of its writer and its position in the chain. */
export interface GroupPlace {
  readonly no: number
  readonly group: number
}

export interface StoredBlock {
  readonly no: number
  readonly statement: BlockStatement
  /** The statement as it was hashed. */
  readonly text: string
}

export interface OpenedBlock extends StoredBlock {
  readonly tree: BlockTree
}

export function openJournalBlocks(context: Pick<StoreContext, 'read' | 'snapshot' | 'exclusive' | 'keys'>) {
  const { read, snapshot, exclusive, keys } = context
  const callersOf = openCallers(keys)
  const readNext = snapshot((no: number) => nextBlock(keys, callersOf, no))
  const insert = exclusive(({ no }: StoredBlock) => `blocks ${no}`, insertBlock)
  const unfinished = read(() => all('chainsWithoutBlocks'))
  const findBlock = read((place: GroupPlace) => blockAt(keys, place))
  const readBlock = snapshot((block: StoredBlock) => rebuild(keys, callersOf, block))
  const opened = new BoundedMap<string, OpenedBlock>({ weight: MAX_OPENED })

  /** Makes the next block of a chain; `false` if all its groups are in blocks. */
  const makeNext = async (no: number, nowMs: number): Promise<boolean> => {
    const next = await readNext(no)
    if (next === undefined) return false
    // If another process made the block first, its block is read by the next step.
    await insert(toBlock(keys, next, nowMs))
    return true
  }

  return {
    /** Makes one block, of any chain; `false` if every group is in a block. */
    async makeSome(nowMs: number): Promise<boolean> {
      for (const row of await unfinished()) if (await makeNext(integer(row, 'no'), nowMs)) return true
      return false
    },
    /** The block with this group, with its tree; makes blocks up to it. */
    async open(place: GroupPlace, nowMs: number): Promise<OpenedBlock> {
      let block = await findBlock(place)
      while (block === undefined) {
        const isMade = await makeNext(place.no, nowMs)
        block = await findBlock(place)
        // If no group was left, another process has made the block.
        if (!isMade && block === undefined) throw unreadable('a commit group of the call is missing')
      }
      const name = `${block.no} ${block.statement.block}`
      const known = opened.get(name)
      if (known !== undefined) return known
      const found = { ...block, tree: await readBlock(block) }
      opened.set(name, found, 1)
      return found
    },
    /** The newest block of each chain. */
    newest: snapshot(() => newestBlocks(keys)),
    /** Blocks of a writer, starting with this number; at most `limit`. */
    from: snapshot((no: number, block: number, limit: number) => blocksFrom(keys, no, block, limit)),
  }
}

export type JournalBlocks = ReturnType<typeof openJournalBlocks>

/** Trees in memory. A file with many receipts has several calls in each block. */
const MAX_OPENED = 16

interface NextBlock {
  readonly no: number
  readonly writer: string
  readonly last: StoredBlock | undefined
  readonly firstGroup: number
  readonly lastGroup: number
  readonly link: string
  readonly leaves: readonly Leaf[]
}

function* nextBlock(keys: KeyRing, callersOf: OpenCallers, no: number): Steps<NextBlock | undefined> {
  const row = yield* get('lastBlock', no)
  const last = row === undefined ? undefined : blockFromRow(keys, row)
  const ends = (yield* get('chainSpan', no)) ?? {}
  const first = optionalInteger(ends, 'first')
  if (first === undefined) return undefined
  const after = last === undefined ? first - 1 : last.statement.last_group
  // Retention may have removed groups before they were in a block.
  const groups = yield* readGroups(keys, callersOf, no, { after: Math.max(after, first - 1) })
  const [begin, end] = [groups[0], groups.at(-1)]
  if (begin === undefined || end === undefined) return undefined
  return {
    ...{ no, last, writer: end.writer, link: end.link },
    firstGroup: begin.group,
    lastGroup: end.group,
    leaves: groups.flatMap(({ leaves }) => leaves),
  }
}

function toBlock(keys: KeyRing, next: NextBlock, nowMs: number): StoredBlock {
  const { no, writer, last, firstGroup, lastGroup, link, leaves } = next
  const block = last === undefined ? 0 : last.statement.block + 1
  const { depth, root } = growTree(leaves, secretOf(keys, writer, block))
  const statement: BlockStatement = {
    ...{ writer, block, first_group: firstGroup, last_group: lastGroup },
    made_at: new Date(nowMs).toISOString(),
    ...{ depth, root, link },
    before: last === undefined ? '' : hashOf(last.text),
  }
  const written = JSON.stringify(statement)
  return { no, statement, text: written }
}

function hashOf(statement: string): string {
  return hash('sha256', blockBytes(statement), 'base64url')
}

function secretOf(keys: KeyRing, writer: string, block: number): string {
  return keys.sign('receipt', JSON.stringify(['block', writer, block]))
}

/** The row is not inserted if another process has made the block. The change has no event: an event would need another block. */
function* insertBlock({ keys }: CommitGroup, { no, statement, text: written }: StoredBlock): Steps<void> {
  const { block, first_group, last_group, before } = statement
  const row = yield* get('lastBlock', no)
  const last = row === undefined ? undefined : blockFromRow(keys, row)
  if ((last?.statement.block ?? -1) !== block - 1 || (last === undefined ? '' : hashOf(last.text)) !== before)
    return
  yield* write('insertBlock', no, block, first_group, last_group, written, macOf(keys, written))
}

type OpenCallers = ReturnType<typeof openCallers>

interface CheckedGroup {
  readonly writer: string
  readonly group: number
  readonly link: string
  readonly leaves: readonly Leaf[]
}

/** Groups of a chain in order, each with a valid link; as many as a block may have, or those up to `last`. */
function* readGroups(
  keys: KeyRing,
  callersOf: OpenCallers,
  no: number,
  { after, last = after + MAX_GROUPS }: { readonly after: number; readonly last?: number },
): Steps<readonly CheckedGroup[]> {
  const isBounded = last !== after + MAX_GROUPS
  const groups: CheckedGroup[] = []
  let link = yield* linkBefore(no, after)
  let leaves = 0
  for (let n = after; n < last; ) {
    const rows: readonly Row[] = yield* all('groupsForBlock', no, n, last, GROUPS_AT_ONCE)
    for (const row of rows) {
      if (!isBounded && leaves >= MAX_LEAVES) return groups
      const group = yield* checkGroup(keys, callersOf, row, link)
      if (integer(row, 'n') !== n + 1) throw unreadable(`group ${n + 1} of writer ${group.writer} is missing`)
      groups.push(group)
      leaves += group.leaves.length
      link = group.link
      n += 1
    }
    if (rows.length < GROUPS_AT_ONCE) return groups
  }
  return groups
}

function* linkBefore(no: number, after: number): Steps<string> {
  if (after < 0) return CHAIN_START
  const row = (yield* get('linkAt', no, after)) ?? (yield* get('checkpointOf', no))
  if (row === undefined) throw unreadable('the link before a block is missing')
  return text(row, 'link')
}

function* checkGroup(keys: KeyRing, callersOf: OpenCallers, row: Row, previous: string): Steps<CheckedGroup> {
  const [writer, group, atMs] = [text(row, 'writer_id'), integer(row, 'n'), integer(row, 'at')]
  const [eventsJson, link, callers] = [text(row, 'events'), text(row, 'link'), optionalBytes(row, 'callers')]
  const linked = { id: integer(row, 'id'), writer, group, atMs, eventsJson, callers }
  const generation = keys.find(generationOfTag(link))
  if (generation === undefined || linkOf(generation, previous, linked) !== link)
    throw unreadable(`group ${group} of writer ${writer} was changed. Run: collet journal verify`)
  const found = { writer, group, atMs, eventsJson, callers: yield* callersOf(row) }
  return { writer, group, link, leaves: leavesOf(keys, found) }
}

function unreadable(reason: string): StoreError {
  return new StoreError('unreadable', `no receipt can be made: ${reason}`)
}

function* blockAt(keys: KeyRing, { no, group }: GroupPlace): Steps<StoredBlock | undefined> {
  const row = yield* get('blockAt', no, group)
  const block = row === undefined ? undefined : blockFromRow(keys, row)
  return block !== undefined && block.statement.last_group >= group ? block : undefined
}

/** The tree of a block, built again from its groups. */
function* rebuild(keys: KeyRing, callersOf: OpenCallers, { no, statement }: StoredBlock): Steps<BlockTree> {
  const { writer, block, first_group, last_group, root } = statement
  const groups = yield* readGroups(keys, callersOf, no, { after: first_group - 1, last: last_group })
  if (groups.length !== last_group - first_group + 1)
    throw new StoreError(
      'unreadable',
      'no receipt can be made: retention removed a part of the block of this call',
    )
  const tree = growTree(
    groups.flatMap(({ leaves }) => leaves),
    secretOf(keys, writer, block),
  )
  if (tree.root === root) return tree
  throw unreadable(`block ${block} of writer ${writer} was changed. Run: collet journal verify`)
}

function* newestBlocks(keys: KeyRing): Steps<readonly StoredBlock[]> {
  return (yield* all('newestBlocks')).map((row) => blockFromRow(keys, row))
}

function* blocksFrom(keys: KeyRing, no: number, block: number, limit: number): Steps<readonly StoredBlock[]> {
  return (yield* all('blocksFrom', no, block, limit)).map((row) => blockFromRow(keys, row))
}

function blockFromRow(keys: KeyRing, row: Row): StoredBlock {
  const written = text(row, 'statement')
  if (text(row, 'mac') !== macOf(keys, written))
    throw unreadable('a block was changed by someone without the key')
  const statement: BlockStatement = JSON.parse(written)
  return { no: integer(row, 'writer'), statement, text: written }
}

/** A block is written once and names its writer and number, so its MAC needs no other context. */
function macOf(keys: KeyRing, statement: string): string {
  return keys.sign('receipt', JSON.stringify(['statement', statement]))
}

/** Blocks whose groups retention removed are deleted, except the newest of them, which the next block names. */
function* forget({ limit }: PurgeStep): Steps<number> {
  return yield* write('forgetBlocks', limit)
}

const COLUMNS = 'writer, no, first_group, last_group, statement, mac'

const queries = {
  chainsWithoutBlocks: `SELECT w.no FROM writers w
    WHERE (SELECT max(n) FROM commit_groups WHERE writer = w.no)
      > coalesce((SELECT last_group FROM journal_blocks b WHERE b.writer = w.no ORDER BY b.no DESC LIMIT 1), -1)
    ORDER BY w.no`,
  chainSpan: 'SELECT min(n) AS first, max(n) AS last FROM commit_groups WHERE writer = ?',
  groupsForBlock: `SELECT g.id, g.writer, w.id AS writer_id, g.n, g.at, g.events, g.callers, g.link FROM commit_groups g
    JOIN writers w ON w.no = g.writer WHERE g.writer = ? AND g.n > ? AND g.n <= ? ORDER BY g.n LIMIT ?`,
  lastBlock: `SELECT ${COLUMNS} FROM journal_blocks WHERE writer = ? ORDER BY no DESC LIMIT 1`,
  blockAt: `SELECT ${COLUMNS} FROM journal_blocks WHERE writer = ? AND first_group <= ?
    ORDER BY first_group DESC LIMIT 1`,
  blocksFrom: `SELECT ${COLUMNS} FROM journal_blocks WHERE writer = ? AND no >= ? ORDER BY no LIMIT ?`,
  newestBlocks: `SELECT b.writer, b.no, b.first_group, b.last_group, b.statement, b.mac FROM writers w CROSS JOIN journal_blocks b
    WHERE b.writer = w.no AND b.no = (SELECT max(no) FROM journal_blocks WHERE writer = w.no) ORDER BY w.no`,
  insertBlock: `INSERT INTO journal_blocks (writer, no, first_group, last_group, statement, mac) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (writer, no) DO NOTHING`,
  forgetBlocks: `DELETE FROM journal_blocks WHERE (writer, no) IN (
    SELECT b.writer, b.no FROM checkpoints c JOIN journal_blocks b ON b.writer = c.writer
    WHERE b.last_group < c.n AND b.no < (SELECT max(o.no) FROM journal_blocks o WHERE o.writer = c.writer AND o.last_group <= c.n)
    LIMIT ?)`,
} as const

const tables = `
CREATE TABLE journal_blocks (
  writer INTEGER NOT NULL,
  no INTEGER NOT NULL,
  first_group INTEGER NOT NULL,
  last_group INTEGER NOT NULL,
  statement TEXT NOT NULL,
  mac TEXT NOT NULL,
  PRIMARY KEY (writer, no),
  UNIQUE (writer, first_group)
) STRICT;
`

export const journalBlockModule: StoreModule = { name: 'blocks of the journal', tables, queries, forget }
