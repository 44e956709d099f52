import { hash } from 'node:crypto'
import { defined } from '#kernel/base/json'
import { attemptEvent } from '#kernel/journal/append'
import { findCall } from '#kernel/store/calls/calls'
import {
  type CommitGroup,
  LIST,
  listsOf,
  type Row,
  type Steps,
  type StoreContext,
  statements,
} from '#kernel/store/engine'
import type { StoreModule } from '#kernel/store/module'
import {
  integer,
  optionalInteger,
  optionalText,
  ownText,
  provenText,
  sliceOf,
  subjectFromRow,
  text,
} from '#kernel/store/rows'
import type { OpenedContents, ProvenLeaf } from '#receipts/format'
import type { Attribution } from '#store/steps'
import { type Leaf, saltedDigest } from './block-tree.ts'
import { type GroupPlace, type JournalBlocks, type OpenedBlock, openJournalBlocks } from './journal-blocks.ts'
import { firstFrom } from './journal-reader.ts'

/**
 * Proofs of single calls: which commit groups are about a call, and their leaves in the blocks of the journal. The routes for receipts
 * and `collet journal receipt` use it. The journal has no index by call, so groups are found by the references of the call's row and
 * by the times of its run and its approvals. Making a receipt is journaled before it is handed out.
 */

const { get, all } = statements<keyof typeof queries | 'chainEnds'>()

/** What a receipt says about one call. */
export interface CallProof {
  readonly record: string
  readonly leaves: readonly ProvenLeaf[]
  readonly blocks: readonly OpenedBlock[]
  /** The input and the outcome with their salts; only if they were requested and are kept. */
  readonly contents: OpenedContents
}

interface ProofRequest extends Attribution {
  readonly record: string
  /** Whether the proof is handed out with the input and the outcome. */
  readonly withContents: boolean
}

export function openProofs(context: StoreContext) {
  const blocks = openJournalBlocks(context)
  return { blocks, receipts: openReceipts(context, blocks) }
}

function openReceipts(
  { read, exclusive, sealed }: Pick<StoreContext, 'read' | 'exclusive' | 'sealed'>,
  blocks: JournalBlocks,
) {
  const readPlaces = read(placesOf)
  const readValues = read((record: string) => valuesOf(sealed, record))
  return {
    /** Journals that a receipt of the call is made; `false` if there is no such call. */
    note: exclusive(({ record }: ProofRequest) => record, noteReceipt),
    /** The proof of a call; `undefined` if the journal has nothing about it, or not any more. */
    async prove({ record, withContents }: Pick<ProofRequest, 'record' | 'withContents'>, nowMs: number) {
      const opened: OpenedBlock[] = []
      for (const place of await readPlaces(record)) {
        const { first_group = 0, last_group = -1, writer } = opened.at(-1)?.statement ?? {}
        const isInLast =
          opened.at(-1)?.no === place.no && place.group >= first_group && place.group <= last_group
        if (writer === undefined || !isInLast) opened.push(await blocks.open(place, nowMs))
      }
      const proofs = opened.flatMap(({ statement: { writer, block }, tree }) =>
        tree.proofsOf(record).map(({ leaf, slot, path }) => ({
          leaf,
          proven: { writer, block, slot, salt: leaf.salt.toString('base64url'), path, text: leaf.text },
        })),
      )
      if (proofs.length === 0) return undefined
      const contents = withContents ? contentsOf(proofs, await readValues(record)) : {}
      const proof: CallProof = {
        record,
        leaves: proofs.map(({ proven }) => proven),
        blocks: opened,
        contents,
      }
      return proof
    },
  }
}

export type ReceiptStore = ReturnType<typeof openReceipts>

function* noteReceipt(group: CommitGroup, { record, by, atMs, withContents }: ProofRequest): Steps<boolean> {
  const row = yield* get('findCall', record)
  if (row === undefined) return false
  const subject = subjectFromRow(row)
  if (withContents) group.append(attemptEvent('call.shown', subject, atMs, { by }))
  group.append(attemptEvent('call.receipt_made', subject, atMs, { by }))
  return true
}

/** An event is committed at most this long before or after its own time, unless the store was stuck. */
const [BEFORE_MS, AFTER_MS] = [1_000, 30_000]

/** The groups with events about a call, in the order of their writers. */
function* placesOf(record: string): Steps<readonly GroupPlace[]> {
  const row = yield* get('findCall', record)
  if (row === undefined) return []
  const places = new Map<string, GroupPlace>()
  const keep = (found: Row): void => {
    const place = { no: integer(found, 'writer'), group: integer(found, 'n') }
    places.set(`${place.no} ${place.group}`, place)
  }
  const ids = ['claim_group', 'outcome_group', 'late_group'].map((column) => optionalInteger(row, column))
  for (const list of listsOf(ids.filter((id) => id !== undefined)))
    for (const found of yield* all('placesOfGroups', ...list)) keep(found)
  const spans = (yield* isPlain(record, row)) ? [] : yield* spansOf(record, row)
  for (const chain of yield* all('chainEnds')) {
    const [no, startedMs] = [integer(chain, 'no'), integer(chain, 'started_at')]
    const [last, lastMs] = [optionalInteger(chain, 'last'), optionalInteger(chain, 'last_at')]
    if (last === undefined || lastMs === undefined) continue
    for (const { fromMs, toMs } of spans) {
      if (toMs < startedMs || fromMs > lastMs) continue
      const from = yield* firstFrom(no, fromMs, last + 1)
      const to = lastMs < toMs ? last + 1 : yield* firstFrom(no, toMs, last + 1)
      for (const found of yield* all('groupsAbout', no, from, to, `%"record":${JSON.stringify(record)}%`))
        keep(found)
    }
  }
  return [...places.values()].toSorted((one, other) => one.no - other.no || one.group - other.group)
}

/** Whether all events that a receipt needs are in the groups of the claim and the outcome: one attempt, without a run and approvals. */
function* isPlain(record: string, row: Row): Steps<boolean> {
  const isSimple =
    integer(row, 'attempt') === 1 && optionalText(row, 'run') === undefined && row.outcome_group !== null
  return isSimple && (yield* all('approvalTimes', record)).length === 0
}

interface Span {
  readonly fromMs: number
  readonly toMs: number
}

/** The times around every event of the call that its rows mention, without overlaps. */
function* spansOf(record: string, row: Row): Steps<readonly Span[]> {
  const times = [optionalInteger(row, 'created_at'), optionalInteger(row, 'finished_at')]
  for (const found of yield* all('approvalTimes', record))
    times.push(...['created_at', 'decided_at', 'at'].map((column) => optionalInteger(found, column)))
  const run = optionalText(row, 'run')
  if (run !== undefined)
    times.push(...(yield* all('timesOfRun', run, record, `%${record}%`)).map((found) => integer(found, 'at')))
  const spans: Span[] = []
  for (const atMs of times.filter((time) => time !== undefined).toSorted((one, other) => one - other)) {
    const [last, span] = [spans.at(-1), { fromMs: atMs - BEFORE_MS, toMs: atMs + AFTER_MS }]
    if (last === undefined || last.toMs < span.fromMs) spans.push(span)
    else spans[spans.length - 1] = { fromMs: last.fromMs, toMs: span.toMs }
  }
  return spans
}

interface Values {
  readonly input: string | undefined
  readonly outcome: string | undefined
}

/** Retention may have removed the values. */
function* valuesOf(sealed: StoreContext['sealed'], record: string): Steps<Values> {
  const row = yield* get('findCall', record)
  if (row === undefined || integer(row, 'expired') === 1) return { input: undefined, outcome: undefined }
  const bound = yield* sealed('payload', sliceOf(row, 'input', 'claim_group'))
  const { outcome } = (yield* findCall(sealed, record)) ?? {}
  return {
    input: ownText(text(row, 'record'), bound),
    outcome: outcome === undefined ? undefined : provenText(outcome),
  }
}

/** A value whose digest is not in the leaf is left out: an input is recorded with its credentials, but its digest is without them. */
function contentsOf(proofs: readonly { readonly leaf: Leaf }[], { input, outcome }: Values): OpenedContents {
  const open = (json: string | undefined, salt: 'inputSalt' | 'outcomeSalt') => {
    if (json === undefined) return undefined
    const digest = hash('sha256', json)
    const found = proofs.findLast(({ leaf }) => leaf.text.includes(saltedDigest(leaf[salt], digest)))
    return found && { salt: found.leaf[salt].toString('base64url'), json }
  }
  return defined({
    input: open(input, 'inputSalt'),
    outcome: open(outcome, 'outcomeSalt'),
  })
}

const queries = {
  placesOfGroups: `SELECT writer, n FROM commit_groups WHERE id IN (${LIST})`,
  groupsAbout:
    'SELECT writer, n FROM commit_groups WHERE writer = ? AND n >= ? AND n < ? AND events LIKE ? LIMIT 1000',
  approvalTimes: `SELECT a.created_at, a.decided_at, d.at FROM approvals a
    LEFT JOIN approval_decisions d ON d.approval = a.id WHERE a.record = ?`,
  /** A run may have the events of many calls. */
  timesOfRun: `SELECT e.at FROM run_events e JOIN runs r ON r.no = e.run
    WHERE r.key = ? AND (r.key = ? OR e.fact LIKE ?) ORDER BY e.sequence LIMIT 1000`,
} as const

export const receiptModule: StoreModule = { name: 'receipts', queries }
