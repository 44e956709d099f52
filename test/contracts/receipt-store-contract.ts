import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { verifyReceiptFile } from '#cli/audit/verify-file'
import type { NewCall } from '#kernel/call/call-record'
import type { ProvenCall } from '#receipts/verify'
import { type KnownBlock, receiptFile } from '#server/audit/receipt-file'
import type { CallProof } from '#store/audit/receipts'
import type { Store } from '#store/collet-store'
import { sampleParking, yesOf } from './approval-store-contract.ts'
import type { ContractCase } from './contract-case.ts'
import { attemptAt, it, POLICY, runThrough, sampleCall, success } from './samples.ts'

const BY = 'key:auditor'

/** The text of a receipt file of these calls. */
export async function receiptsOf(
  store: Store,
  records: readonly string[],
  { withContents = false, linkedTo = [] }: { withContents?: boolean; linkedTo?: readonly KnownBlock[] } = {},
): Promise<string> {
  const atMs = Date.now()
  async function* proofs(): AsyncGenerator<CallProof> {
    for (const record of records) {
      const proof = await store.receipts.prove({ record, withContents }, atMs)
      assert.ok(proof, `no proof of ${record}`)
      yield proof
    }
  }
  const signer = await store.receiptKeys.signer({ by: BY, atMs })
  const { blocks } = store
  const pieces = receiptFile(proofs(), { issuer: 'http://here', atMs, signer, blocks, linkedTo })
  let text = ''
  for await (const piece of pieces) text += piece
  return text
}

export async function verified(file: string | Uint8Array) {
  const calls: ProvenCall[] = []
  const bytes = typeof file === 'string' ? Buffer.from(file) : file
  const { header, lines } = await verifyReceiptFile([bytes], (call) => calls.push(call))
  return { header, lines, calls }
}

/** A call of now: groups are found by the times of a call. */
export function callNow(changes: Partial<NewCall> = {}): NewCall {
  const inputJson = changes.inputJson ?? '{"doorbell_id":"doorbell42"}'
  return sampleCall({ atMs: Date.now(), argsHash: hash('sha256', inputJson), inputJson, ...changes })
}

async function callsOf(store: Store, count: number): Promise<readonly string[]> {
  const records = Array.from({ length: count }, (_, index) => `record-${index}`)
  await Promise.all(
    records.map((record, index) =>
      runThrough(store, callNow({ record, callId: `call-${index}`, userId: `user-${index}` })),
    ),
  )
  return records
}

async function makeAllBlocks(store: Store): Promise<void> {
  for (let step = 0; step < 1_000; step += 1) if (!(await store.blocks.makeSome(Date.now()))) return
  assert.fail('making blocks does not end')
}

/** The contract of every store for receipts: proofs of single calls that others verify. */
export const RECEIPT_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('a receipt proves the call, its tool, its caller and the times', async (store) => {
    await runThrough(store, callNow({ userId: 'u-1' }))
    const { header, calls } = await verified(await receiptsOf(store, ['record-1']))
    assert.equal(header.issuer, 'http://here')
    const [call] = calls
    assert.equal(call?.record, 'record-1')
    const [claim] = call?.facts ?? []
    assert.equal(claim?.call_id, 'call-1')
    assert.equal(claim?.user_id, 'u-1')
    assert.equal(claim?.definition_hash, 'definition-1')
    const events = call?.facts.flatMap(({ events }) => events) ?? []
    assert.deepEqual(
      events.map(({ type, principal, tool }) => [type, principal, tool]),
      [
        ['call.claimed', 'key:alice', 'Doorbell.Ring@0.1.0'],
        ['call.succeeded', 'key:alice', 'Doorbell.Ring@0.1.0'],
      ],
    )
  }),
  it('a receipt shows the input and the outcome only if they were requested', async (store) => {
    await runThrough(store, callNow())
    const closed = await receiptsOf(store, ['record-1'])
    assert.ok(!closed.includes('doorbell42'))
    const [opened] = (await verified(await receiptsOf(store, ['record-1'], { withContents: true }))).calls
    assert.equal(opened?.contents.input?.json, '{"doorbell_id":"doorbell42"}')
    assert.equal(opened?.contents.outcome?.json, '1')
  }),
  it('a receipt contains who approved the call, and why', async (store) => {
    const atMs = Date.now()
    const parking = sampleParking({ expiresAtMs: atMs + 60_000 })
    await store.approvals.park(callNow(), parking)
    const decided = await store.approvals.decide(yesOf('key:bob', { atMs, reason: 'as agreed with ACME' }))
    assert.equal(decided.kind, 'decided')
    const [call] = (await verified(await receiptsOf(store, ['record-1']))).calls
    const events = call?.facts.flatMap(({ events }) => events) ?? []
    const granted = events.find(({ type }) => type === 'approval.granted')
    assert.deepEqual([granted?.by, granted?.reason], ['key:bob', 'as agreed with ACME'])
    assert.ok(call?.facts[0]?.input, 'the input that was approved is bound')
  }),
  it('the receipt of a call contains nothing that is derived from another call of the same commit', async (store) => {
    await callsOf(store, 20)
    const file = await receiptsOf(store, ['record-3'], { withContents: true })
    assert.ok(!/record-(?!3\b)|call-(?!3\b)|user-(?!3\b)/.test(file))
    const [, ...lines] = file.split('\n')
    // Everything that is not about this call is a hash with a secret or a position in the journal.
    const block = JSON.parse(lines.find((line) => line.startsWith('{"block"')) ?? '').block
    assert.deepEqual(Object.keys(block), [
      ...['writer', 'block', 'first_group', 'last_group', 'made_at', 'depth', 'root', 'link', 'before'],
    ])
    assert.equal(block.depth, 9)
  }),
  it('a receipt of one of two calls, and of one call alone, have proofs of equal length', async (store) => {
    const lengthOf = (file: string) =>
      JSON.parse(file.split('\n').find((line) => line.startsWith('{"call"')) ?? '').call.leaves[0].path.length
    await runThrough(store, callNow())
    const alone = lengthOf(await receiptsOf(store, ['record-1']))
    await callsOf(store, 100)
    await makeAllBlocks(store)
    assert.equal(lengthOf(await receiptsOf(store, ['record-50'])), alone)
  }),
  it('blocks are linked, and a later file proves that the journal was only extended', async (store) => {
    const known = (await verified(await receiptsOf(store, await callsOf(store, 3)))).lines.blocks
    for (let n = 0; n < 5; n += 1) {
      await runThrough(store, callNow({ record: `later-${n}`, callId: `later-${n}` }))
      await makeAllBlocks(store)
    }
    const linkedTo = known.map(({ writer, block }) => ({ writer, block }))
    const { lines } = await verified(await receiptsOf(store, ['later-4'], { linkedTo }))
    const numbers = lines.blocks.map(({ block }) => block)
    assert.deepEqual(
      numbers,
      Array.from({ length: numbers.length }, (_, index) => (numbers[0] ?? 0) + index),
    )
    assert.ok(numbers.length > 4)
  }),
  it('the same call has the same leaves in every receipt', async (store) => {
    await callsOf(store, 3)
    const callLine = (file: string) => file.split('\n').find((line) => line.startsWith('{"call"'))
    const first = await receiptsOf(store, ['record-1'])
    await callsOf(store, 30)
    assert.equal(callLine(await receiptsOf(store, ['record-1'])), callLine(first))
  }),
  it('making a receipt is journaled', async (store) => {
    await runThrough(store, callNow())
    assert.equal(await store.receipts.note({ record: 'record-1', by: BY, atMs: 5, withContents: true }), true)
    assert.equal(
      await store.receipts.note({ record: 'nothing', by: BY, atMs: 5, withContents: false }),
      false,
    )
    const events = (await store.readJournal([], 100)).flatMap((group) => group.events)
    assert.deepEqual(
      events.flatMap((event) => ('by' in event && event.by === BY ? [event.type] : [])),
      ['call.shown', 'call.receipt_made'],
    )
  }),
  it('a new key signs from now on, and the earlier one stays listed', async (store) => {
    await runThrough(store, callNow())
    const first = await verified(await receiptsOf(store, ['record-1']))
    await store.receiptKeys.rotate({ by: BY, atMs: Date.now() + 1_000 })
    const second = await verified(await receiptsOf(store, ['record-1']))
    assert.notEqual(second.header.key.id, first.header.key.id)
    const keys = await store.receiptKeys.list()
    assert.deepEqual(
      keys.map(({ id, retiredAtMs }) => [id, retiredAtMs === undefined]),
      [
        [second.header.key.id, true],
        [first.header.key.id, false],
      ],
    )
  }),
  it('many servers that ask for the first key at once get one key', async (store) => {
    const signers = await Promise.all(
      Array.from({ length: 10 }, () => store.receiptKeys.signer({ by: BY, atMs: 1 })),
    )
    assert.equal(new Set(signers.map(({ key }) => key.id)).size, 1)
  }),
  it('retention removes blocks with their groups, except the last before the journal', async (store) => {
    await callsOf(store, 3)
    await makeAllBlocks(store)
    const before = (await store.blocks.newest())[0]?.statement.block ?? -1
    const laterMs = Date.now() + 2 * POLICY.journalMs
    for (let step = 0; step < 100; step += 1) if (!(await store.purge(laterMs, POLICY))) break
    assert.equal(await store.receipts.prove({ record: 'record-1', withContents: false }, laterMs), undefined)
    await makeAllBlocks(store)
    await runThrough(store, callNow({ record: 'after', callId: 'after' }))
    const { lines } = await verified(await receiptsOf(store, ['after']))
    assert.ok((lines.blocks[0]?.block ?? 0) > before)
    assert.notEqual(lines.blocks[0]?.before, '')
  }),
  it('the outcome of a call is proven after retention removed it', async (store) => {
    await runThrough(store, callNow())
    const [before] = (await verified(await receiptsOf(store, ['record-1']))).calls
    const laterMs = Date.now() + 2 * POLICY.resultsMs
    for (let step = 0; step < 100; step += 1) if (!(await store.purge(laterMs, POLICY))) break
    const [after] = (await verified(await receiptsOf(store, ['record-1'], { withContents: true }))).calls
    assert.deepEqual(after?.facts, before?.facts)
    assert.deepEqual(after?.contents, {})
  }),
  it('a call that failed and a settled call are proven with their ends', async (store) => {
    const call = callNow()
    await store.claim(call)
    const run = attemptAt(call, 1)
    await store.finish({
      run,
      state: 'released',
      outcome: { ok: false, error: { code: 'tool_failed', message: 'x', canRetry: true } },
      atMs: call.atMs,
    })
    const previous = await store.findByRecord('record-1')
    assert.ok(previous)
    await store.reclaim(previous, { session: undefined, atMs: call.atMs })
    const again = { ...run, attempt: 2, run: 'record-1' }
    await store.finish({ run: again, state: 'succeeded', outcome: success('[2]'), atMs: call.atMs })
    const [proven] = (await verified(await receiptsOf(store, ['record-1'], { withContents: true }))).calls
    const types = proven?.facts.flatMap(({ events }) => events.map(({ type }) => type))
    assert.deepEqual(types, ['call.claimed', 'call.released', 'call.claimed', 'call.succeeded'])
    assert.equal(proven?.contents.outcome?.json, '[2]')
  }),
]
