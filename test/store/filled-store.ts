import { Secret } from '#kernel/base/secret'
import type { JournalHead } from '#kernel/journal/events'
import type { Store } from '#store/collet-store'
import type { NewSource, PinRecord } from '#store/imports'
import { sampleParking, yesOf } from '../contracts/approval-store-contract.ts'
import { attemptAt, eventsOf, runThrough, sampleCall, scopeAt, success } from '../contracts/samples.ts'

const TENANT = 'default'
const CREDENTIAL = {
  tenant: TENANT,
  principal: 'key:alice',
  user: 'ann',
  provider: 'google',
  kind: 'token',
} as const
const REQUEST = { tenant: TENANT, id: 'request-1' }
const SOURCE: NewSource = {
  ...{ key: 'Weather', options: { type: 'otc', url: 'https://weather.example', apiKey: 'canary-key' } },
  ...{ addedBy: 'cli:ann', addedMs: 1_000, replace: false },
}
const PIN: PinRecord = {
  nativeName: 'read',
  local: 'read',
  accepted: {
    ...{
      hash: 'hash',
      identity: { origin: 'https://tools.example' },
      version: '1.0.0',
      by: 'first sight',
      atMs: 1_000,
    },
    offered: {
      ...{ nativeName: 'read', description: 'Reads.', inputSchema: { type: 'object' }, outputSchema: {} },
      ...{ policy: {}, binding: {} },
    },
  },
  isServed: true,
  waiting: undefined,
}

/**
 * One of everything that must outlive a change of version or of database: an outcome under a key, a run, a call that waits for
 * approval and one that was approved, one that was cut by a crash, a credential, an API key, a pin, a source and an answered request.
 */
export async function fillStore(open: () => Promise<Store>): Promise<void> {
  const first = await open()
  await runThrough(first, sampleCall())
  await runThrough(first, sampleCall({ record: 'record-2', callId: 'call-2', scope: scopeAt('run-a') }))
  await first.approvals.park(sampleCall({ record: 'record-3', callId: 'call-3' }), sampleParking())
  const approved = sampleCall({ record: 'record-4', callId: 'call-4' })
  await first.approvals.park(approved, sampleParking({ id: 'approval-2' }))
  await first.approvals.decide(yesOf('key:bob', { id: 'approval-2', reason: 'good for "Müller" ✓' }))
  await first.vault.put({
    ...{ ...CREDENTIAL, ref: 'cred_1', value: new Secret('first-value'), scopes: ['mail.read'] },
    ...{ expiresAtMs: undefined, by: 'cli:ann', atMs: 1_000 },
  })
  await first.keys.createKey({
    ...{
      tenant: TENANT,
      name: 'alice',
      keyId: 'key-1',
      digest: 'DIGEST-1',
      label: 'laptop',
      scopes: ['mail:*'],
    },
    ...{ roles: [], tools: undefined, expiresAtMs: undefined, by: 'operator', atMs: 1_000 },
  })
  await first.pins.write({ source: 'files', seen: 0, pins: [PIN], changesServed: true, events: [] })
  await first.sources.put(SOURCE)
  await first.requests.begin({ ...REQUEST, asked: 'asked', expiresAtMs: FAR_MS })
  await first.requests.answer(REQUEST, { status: 201, headers: { a: 'b' }, body: 'made' }, FAR_MS)
  await first.claim(sampleCall({ record: 'record-5', callId: 'call-5' }))
  await first.close()
  const second = await open()
  await second.recover(5_000)
  await second.close()
}

const FAR_MS = 9_000_000_000_000

/** Reads all of this back from a store. */
export async function readStore(store: Store) {
  const calls = await Promise.all(
    [1, 2, 3, 4, 5].map(async (n) => await store.find({ tenant: TENANT, record: `record-${n}` })),
  )
  const credential = await store.vault.find(CREDENTIAL)
  return {
    calls,
    states: calls.map((call) => call?.state),
    outcome: calls[0]?.outcome,
    approvals: await store.approvals.list({ tenant: TENANT, limit: 10 }),
    run: await eventsOf(store, scopeAt('run-a').run),
    secret: credential?.value?.reveal(),
    keys: await store.keys.listKeys({ limit: 10 }),
    pins: (await store.pins.read('files')).pins,
    sources: await store.sources.list(),
    request: await store.requests.begin({ ...REQUEST, asked: 'asked', expiresAtMs: FAR_MS }),
  }
}

/** Checks the guarantees: nothing runs again, and waiting calls continue. */
export async function checkGuarantees(
  store: Store,
  oldHeads: readonly JournalHead[],
): Promise<readonly unknown[]> {
  const repeated = await store.claim(sampleCall())
  const parked = await store.find({ tenant: TENANT, record: 'record-4' })
  if (parked === undefined) throw new Error('the parked call is gone')
  const resumption = {
    approvalId: 'approval-2',
    binding: 'binding-1',
    rerunUntilMs: 0,
    session: undefined,
    atMs: 6_000,
  }
  const resumed = await store.approvals.resume(parked, resumption)
  const run = { ...attemptAt(sampleCall({ record: 'record-4' }), 1), run: 'record-4' }
  await store.finish({ run, state: 'succeeded', outcome: success('"paid"'), atMs: 7_000 })
  const settled = await store.settle({
    ...{ record: 'record-5', as: 'succeeded', valueJson: '"found"', error: undefined },
    ...{ who: 'cli:ann', why: 'looked', atMs: 8_000 },
  })
  const verified = await Promise.all(oldHeads.map(async (head) => (await store.verify(head)).ok))
  return [repeated.kind, resumed.kind, settled, ...new Set(verified)]
}
