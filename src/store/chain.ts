import { randomUUID } from 'node:crypto'
import { StoreError } from '#core/errors'
import type { JournalHead } from '#core/journal/events'
import { newDataKey, Sealer, type StoreKeys, wrapDataKey } from './encryption.ts'
import { CommitGroup } from './engine.ts'
import { CHAIN_START, linkOf, sealContext } from './journal.ts'
import { integer, text } from './rows.ts'
import { all, get, type Steps, write } from './steps.ts'

/** Far more than one process commits; two million processes then have numbers that are exact. */
const GROUPS_PER_WRITER = 2 ** 32

/** The newest group of a chain. */
export interface ChainHead {
  readonly n: number
  readonly link: string
}

/**
 * This process as a writer: its data key, and the chain of its commit groups (rules 14 and 15). When and how its steps are
 * committed is the engine's part.
 */
export class Chain {
  readonly id = randomUUID()
  readonly keys: StoreKeys
  readonly #nowMs: () => number
  #writer: { readonly no: number; readonly sealer: Sealer } | undefined
  /** Moved by the engine once a group is committed. */
  head: ChainHead = { n: -1, link: CHAIN_START }

  constructor(keys: StoreKeys, nowMs: () => number) {
    this.keys = keys
    this.#nowMs = nowMs
  }

  get isStarted(): boolean {
    return this.#writer !== undefined
  }

  /** The writer's number in call rows; 0 before it began, which no row has. */
  get no(): number {
    return this.#writer?.no ?? 0
  }

  /** The writer's row and its first group, which names the heads of the other chains; gives the head to be. */
  *begin(): Steps<ChainHead> {
    const heads = yield* newHeads()
    const dataKey = newDataKey()
    const wrapped = wrapDataKey(this.keys.wrap, dataKey, this.id)
    const row = (yield* get('insertWriter', this.id, this.#nowMs(), wrapped)) ?? {}
    this.#writer = { no: integer(row, 'no'), sealer: new Sealer(dataKey) }
    for (const { no, group } of heads) yield* write('recordHead', group, this.no, no)
    const group = this.openGroup()
    group.append({
      type: 'writer.started',
      at: this.#nowMs(),
      heads: heads.map(({ no: _no, ...head }) => head),
    })
    return yield* this.insert(group)
  }

  /** After a beginning that was not committed, or an end that was. */
  forgetWriter(): void {
    this.#writer = undefined
  }

  /** Its id says whose it is and where in the chain, so it needs no look at what others committed. */
  openGroup(): CommitGroup {
    const id = this.no * GROUPS_PER_WRITER + this.head.n + 1
    return new CommitGroup({ id, writer: this.no, keys: this.keys })
  }

  /** Seals and links the group; the head it gives is the chain's once it is committed. */
  *insert(group: CommitGroup): Steps<ChainHead> {
    if (this.#writer === undefined) throw new StoreError('not_written', 'the writer has ended')
    const { no, sealer } = this.#writer
    const n = this.head.n + 1
    const atMs = this.#nowMs()
    const seal = (segment: 'callers' | 'payload', plain: string) =>
      plain === '' ? null : sealer.seal(plain, sealContext(segment, this.id, n))
    const callers = seal('callers', group.callers)
    const payload = seal('payload', group.payload)
    const { id, eventsJson, live } = group
    const linked = { id, writer: this.id, group: n, atMs, eventsJson, callers }
    const link = linkOf(this.keys.chain, this.head.link, linked)
    yield* write('insertGroup', id, no, n, atMs, eventsJson, callers, payload, live, link)
    return { n, link }
  }

  /** Rule 15: after an unknown commit the head is read again. */
  *readHead(): Steps<ChainHead | undefined> {
    const row = yield* get('headOf', this.no)
    return row === undefined ? undefined : { n: integer(row, 'n'), link: text(row, 'link') }
  }

  /** The last event of the chain, inside a commit like any other. */
  *recordStop(group: CommitGroup): Steps<void> {
    const at = this.#nowMs()
    group.append({ type: 'writer.stopped', at })
    yield* write('endWriter', at, this.id)
  }
}

/** Heads of the chains that grew since a writer last began: what did not grow was recorded by then (rule 15). */
function* newHeads(): Steps<readonly (JournalHead & { readonly no: number })[]> {
  return (yield* all('newHeads')).map((row) => ({
    no: integer(row, 'no'),
    writer: text(row, 'writer'),
    group: integer(row, 'n'),
    link: text(row, 'link'),
  }))
}
