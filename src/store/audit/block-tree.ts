import { hash } from 'node:crypto'
import type { JournalEvent } from '#kernel/journal/events'
import type { KeyRing } from '#kernel/store/key-ring'
import { callerTexts, openReasonIn } from '#kernel/store/rows'
import {
  HASH_BYTES,
  type LeafContent,
  leafBytes,
  nodeBytes,
  saltedBytes,
  toBase64Url,
} from '#receipts/format'

/**
 * The tree of one block of the journal: a leaf for each call in each commit group, salted, in a slot that its salt selects. Paths of a
 * block have equal lengths, and empty places hold random bytes, so a proof shows neither another call nor how many there are.
 * Everything is derived from the groups and a permanent key of the store, so the same block always has the same tree. `journal-blocks.ts`
 * uses it.
 */

/** Levels of a tree, unless a commit group has very many calls. Then there are more, so that half of the slots stay empty. */
const MIN_DEPTH = 9
/** A block ends with the group that reaches this number of leaves: some milliseconds of work. */
export const MAX_LEAVES = 128

export interface BlockGroup {
  readonly writer: string
  readonly group: number
  readonly atMs: number
  readonly eventsJson: string
  /** Callers' texts, opened. */
  readonly callers: string
}

export interface Leaf {
  /** Empty for the events of a group that are about no call. */
  readonly record: string
  readonly group: number
  readonly text: string
  readonly salt: Buffer
  /** Salts of the digests in `text`: a reader who has one can compare a value with its digest. */
  readonly inputSalt: Buffer
  readonly outcomeSalt: Buffer
}

export function leavesOf(keys: KeyRing, found: BlockGroup): readonly Leaf[] {
  const { writer, group, atMs, eventsJson, callers } = found
  const events: readonly JournalEvent[] = JSON.parse(eventsJson)
  const byRecord = Map.groupBy(events, (event) => ('record' in event ? event.record : ''))
  const texts = Map.groupBy(callerTexts(callers), ([record]) => record)
  const secret = keys.sign('receipt', JSON.stringify(['group', writer, group]))
  return [...byRecord].map(([record, own]) => {
    const salts = hash('sha512', `${secret} ${record}`, 'buffer')
    const [salt, inputSalt, outcomeSalt] = [salts.subarray(0, 20), salts.subarray(20, 42), salts.subarray(42)]
    const content: LeafContent = {
      ...{ record, writer, group, committed_at: new Date(atMs).toISOString() },
      events: own.map((event) => ({ ...openReasonIn(keys, event), at: new Date(event.at).toISOString() })),
      ...callerFacts(texts.get(record) ?? [], { inputSalt, outcomeSalt }),
    }
    return { record, group, text: JSON.stringify(content), salt, inputSalt, outcomeSalt }
  })
}

type CallerFacts = Pick<LeafContent, 'call_id' | 'user_id' | 'definition_hash' | 'input' | 'outcomes'>

const TRANSPORTS: ReadonlySet<unknown> = new Set(['native', 'mcp', 'http'])

/** What callers' texts of a group say about one call: its claim, and digests of its outcomes. */
function callerFacts(
  texts: readonly (readonly [string, string])[],
  { inputSalt, outcomeSalt }: Pick<Leaf, 'inputSalt' | 'outcomeSalt'>,
): CallerFacts {
  let claim: CallerFacts = {}
  const outcomes: { attempt: number; digest: string }[] = []
  for (const [, text] of texts) {
    const [, attempt, digest] = /^=(\d+):([\da-f]{64});$/.exec(text) ?? []
    if (digest !== undefined) {
      outcomes.push({ attempt: Number(attempt), digest: saltedDigest(outcomeSalt, digest) })
      continue
    }
    const parts: readonly (string | null)[] = JSON.parse(text)
    const [callId, , userId, argsHash, , transport, , , definition] = parts
    if (!TRANSPORTS.has(transport)) continue
    claim = {
      ...(callId != null && { call_id: callId }),
      ...(userId != null && { user_id: userId }),
      ...(definition != null && { definition_hash: definition }),
      ...(argsHash != null && { input: saltedDigest(inputSalt, argsHash) }),
    }
  }
  return outcomes.length === 0 ? claim : { ...claim, outcomes }
}

export function saltedDigest(salt: Buffer, digest: string): string {
  return hash('sha256', saltedBytes(salt, digest), 'base64url')
}

export interface BlockTree {
  readonly depth: number
  readonly root: string
  /** The leaves of a call, each with its slot and the hashes beside its path. */
  proofsOf(record: string): readonly { readonly leaf: Leaf; readonly slot: number; readonly path: string }[]
}

/** `secret` belongs to this block only. */
export function growTree(leaves: readonly Leaf[], secret: string): BlockTree {
  const depth = Math.max(MIN_DEPTH, Math.ceil(Math.log2(leaves.length * 2)))
  const slots: (Leaf | undefined)[] = Array.from({ length: 2 ** depth })
  for (const leaf of leaves) slots[freeSlot(leaf, slots)] = leaf
  const empty = (level: number, place: number): Buffer =>
    hash('sha256', `${secret} ${level} ${place}`, 'buffer')
  const levels: (Buffer | undefined)[][] = [
    slots.map((leaf) => leaf && sha256(leafBytes(leaf.salt, leaf.text))),
  ]
  for (let level = 0; level < depth; level += 1) {
    const below = levels[level] ?? []
    const above: (Buffer | undefined)[] = []
    for (let place = 0; place < below.length; place += 2) {
      const [left, right] = [below[place], below[place + 1]]
      const isEmpty = left === undefined && right === undefined
      above.push(
        isEmpty
          ? undefined
          : sha256(nodeBytes(left ?? empty(level, place), right ?? empty(level, place + 1))),
      )
    }
    levels.push(above)
  }
  const pathOf = (slot: number): string => {
    const path = levels.slice(0, depth).map((nodes, level) => {
      const place = (slot >> level) ^ 1
      return nodes[place] ?? empty(level, place)
    })
    return Buffer.concat(path, depth * HASH_BYTES).toString('base64url')
  }
  return {
    depth,
    root: toBase64Url(levels.at(-1)?.[0] ?? empty(depth, 0)),
    proofsOf: (record) =>
      [...slots.entries()]
        .flatMap(([slot, leaf]) => (leaf?.record === record ? [{ leaf, slot, path: pathOf(slot) }] : []))
        .toSorted((one, other) => one.leaf.group - other.leaf.group),
  }
}

/** Far cheaper than a hash that returns a buffer. */
function sha256(data: string | Uint8Array): Buffer {
  const digest = Buffer.allocUnsafe(HASH_BYTES)
  digest.write(hash('sha256', data, 'binary'), 'latin1')
  return digest
}

/** The slot that the salt selects, or the next free one. */
function freeSlot({ salt }: Leaf, slots: readonly (Leaf | undefined)[]): number {
  let slot = salt.readUInt32BE(0) % slots.length
  while (slots[slot] !== undefined) slot = (slot + 1) % slots.length
  return slot
}
