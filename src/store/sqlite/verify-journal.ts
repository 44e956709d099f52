import type { KeyObject } from 'node:crypto'
import { CHAIN_START, checkpointSignature, linkOf } from '#core/journal/chain'
import type { JournalHead } from '#core/journal/journal-group'
import { integer, optionalBytes, type Row, text } from '#store/sql/row'
import type { Database } from './database.ts'

const PAGE = 1_000

export interface BadGroup {
  readonly writer: string
  readonly group: number
  readonly reason: string
}

export interface Verification {
  readonly ok: boolean
  readonly chains: number
  readonly groups: number
  readonly events: number
  readonly firstBad: BadGroup | undefined
  /** The newest link of each chain: keep one elsewhere to see a cut tail later. */
  readonly heads: readonly JournalHead[]
  /** What this check cannot see, in words. */
  readonly cannotSee: readonly string[]
}

/** Walks every chain from its start, or from its signed checkpoint, to its head (rule 15). */
export function verifyJournal(
  database: Database,
  chainKey: KeyObject,
  kept: JournalHead | undefined,
): Verification {
  const walks = database.all('allWriters').map((row) => new ChainWalk(database, chainKey, row).run())
  const chains = new Map(walks.map((walk) => [walk.writer, walk]))
  const promised = walks.flatMap((walk) => walk.promises)
  const firstBad =
    walks.find((walk) => walk.bad !== undefined)?.bad ??
    firstBroken([...promised, ...(kept === undefined ? [] : [kept])], chains)
  return {
    ok: firstBad === undefined,
    chains: walks.length,
    groups: walks.reduce((sum, walk) => sum + walk.groups, 0),
    events: walks.reduce((sum, walk) => sum + walk.events, 0),
    firstBad,
    heads: walks.flatMap((walk) => (walk.head === undefined ? [] : [walk.head])),
    cannotSee: [
      'groups cut from the end of a chain since its head was last recorded elsewhere (compare with --head)',
      'rows of calls that were deleted or set back: their events are in the journal, but rows and events are not compared',
      'changes made by somebody who holds the key',
    ],
  }
}

/** A head that was recorded elsewhere must still be in its chain. */
function firstBroken(
  promised: readonly JournalHead[],
  chains: ReadonlyMap<string, ChainWalk>,
): BadGroup | undefined {
  for (const { writer, group, link } of promised) {
    const chain = chains.get(writer)
    if (chain === undefined) return { writer, group, reason: 'the whole chain is missing' }
    const found = chain.linkAt(group)
    if (found === 'forgotten') continue
    if (found === undefined) return { writer, group, reason: 'groups are missing at the end of the chain' }
    if (found !== link)
      return { writer, group, reason: 'the chain was replaced: its link is not the recorded one' }
  }
  return undefined
}

class ChainWalk {
  readonly writer: string
  bad: BadGroup | undefined
  head: JournalHead | undefined
  groups = 0
  events = 0
  /** Heads of other chains that this one's writer saw when it began. */
  readonly promises: JournalHead[] = []
  readonly #database: Database
  readonly #chainKey: KeyObject
  readonly #no: number
  #checkpoint = -1

  constructor(database: Database, chainKey: KeyObject, row: Row) {
    this.#database = database
    this.#chainKey = chainKey
    this.#no = integer(row, 'no')
    this.writer = text(row, 'id')
  }

  /** The checked link of a group; `forgotten` when retention removed it. */
  linkAt(group: number): string | 'forgotten' | undefined {
    if (group < this.#checkpoint) return 'forgotten'
    if (group === this.head?.group) return this.head.link
    const row = group < (this.head?.group ?? 0) ? this.#database.get('linkAt', this.#no, group) : undefined
    return row === undefined ? undefined : text(row, 'link')
  }

  run(): this {
    let { n, link } = this.#start()
    for (;;) {
      const rows = this.bad === undefined ? this.#database.all('chainAfter', this.#no, n, PAGE) : []
      // Every writer's first change is its own start, so a chain is never empty.
      if (rows.length === 0 && this.head === undefined) this.#fail(0, 'the whole chain is missing')
      if (rows.length === 0) return this
      for (const row of rows) {
        const found = this.#check(row, n + 1, link)
        if (found === undefined) return this
        n += 1
        link = found
      }
    }
  }

  #start(): { readonly n: number; readonly link: string } {
    const row = this.#database.get('checkpointOf', this.#no)
    if (row === undefined) return { n: -1, link: CHAIN_START }
    const group = integer(row, 'n')
    const link = text(row, 'link')
    if (
      checkpointSignature(this.#chainKey, { writer: this.writer, group, link }) !== text(row, 'signature')
    ) {
      this.#fail(group, 'the checkpoint left by retention has a wrong signature')
    }
    this.#checkpoint = group
    this.#note(group, link)
    return { n: group, link }
  }

  /** The group's link when it is right. */
  #check(row: Row, expected: number, previous: string): string | undefined {
    const group = integer(row, 'n')
    if (group !== expected) return this.#fail(expected, 'the group is missing')
    const eventsJson = text(row, 'events')
    const linked = {
      id: integer(row, 'id'),
      writer: this.writer,
      group,
      atMs: integer(row, 'at'),
      eventsJson,
      callers: optionalBytes(row, 'callers'),
    }
    const link = text(row, 'link')
    if (linkOf(this.#chainKey, previous, linked) !== link) {
      return this.#fail(group, 'its contents or the link before it were changed')
    }
    this.#note(group, link)
    this.groups += 1
    this.#readEvents(eventsJson)
    return link
  }

  #readEvents(eventsJson: string): void {
    const events: readonly { readonly type: string; readonly heads?: readonly JournalHead[] }[] =
      JSON.parse(eventsJson)
    this.events += events.length
    for (const event of events)
      if (event.type === 'writer.started') this.promises.push(...(event.heads ?? []))
  }

  #note(group: number, link: string): void {
    this.head = { writer: this.writer, group, link }
  }

  #fail(group: number, reason: string): undefined {
    this.bad ??= { writer: this.writer, group, reason }
    return undefined
  }
}
