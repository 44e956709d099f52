import assert from 'node:assert/strict'
import { NO_LIMIT } from '#core/limits/budgets'
import type { BudgetWindow, Spending } from '#core/ports/protocol-store'
import type { Store } from '#core/ports/store'
import type { ContractCase } from './contract.ts'
import { DAY_MS, eventsOf, placeAt, purgeAll, runThrough } from './contract-steps.ts'
import { sampleCall, sampleRefusal } from './sample-call.ts'

const HOUR_MS = 3_600_000
const WINDOW: BudgetWindow = { tenant: 'acme', principal: 'key:alice', lengthMs: HOUR_MS, startMs: 0 }
const LIMIT: Spending = { calls: 10, milliseconds: 5_000, cost: 1_500 }

function spending(calls: number, milliseconds = 0, cost = 0): Spending {
  return { calls, milliseconds, cost }
}

/** What every store promises about budgets, and about calls that a limit refused. */
export const LIMIT_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  {
    name: 'a lease takes what is left of each unit and no more',
    async run(open) {
      const { budgets } = await open()
      assert.deepEqual(await budgets.lease(WINDOW, spending(6, 4_000, 500), LIMIT), spending(6, 4_000, 500))
      assert.deepEqual(await budgets.lease(WINDOW, spending(6, 4_000, 500), LIMIT), spending(4, 1_000, 500))
      assert.deepEqual(await budgets.lease(WINDOW, spending(1, 1, 1_000), LIMIT), spending(0, 0, 500))
      assert.deepEqual(await budgets.read(WINDOW), LIMIT)
    },
  },
  {
    name: 'many leases at once hand out the limit once',
    async run(open) {
      const { budgets } = await open()
      const granted = await Promise.all(
        Array.from({ length: 40 }, async () => await budgets.lease(WINDOW, spending(3), LIMIT)),
      )
      assert.equal(
        granted.reduce((sum, { calls }) => sum + calls, 0),
        LIMIT.calls,
      )
    },
  },
  {
    name: 'what is given back can be leased again',
    async run(open) {
      const { budgets } = await open()
      await budgets.lease(WINDOW, LIMIT, LIMIT)
      await budgets.giveBack(WINDOW, spending(2, 700, 0))
      assert.deepEqual(await budgets.lease(WINDOW, LIMIT, LIMIT), spending(2, 700, 0))
    },
  },
  {
    name: 'tenants, principals, whole tenants, lengths and windows each have their own',
    async run(open) {
      const { budgets } = await open()
      await budgets.lease(WINDOW, LIMIT, LIMIT)
      for (const other of [
        { tenant: 'globex' },
        { principal: 'key:bob' },
        { principal: undefined },
        { lengthMs: 2 * HOUR_MS },
        { startMs: HOUR_MS },
      ]) {
        assert.deepEqual(await budgets.lease({ ...WINDOW, ...other }, spending(1), LIMIT), spending(1))
      }
    },
  },
  {
    name: 'a lowered limit counts what is handed out already, and a raised one grants more',
    async run(open) {
      const { budgets } = await open()
      await budgets.lease(WINDOW, spending(8), LIMIT)
      assert.deepEqual(await budgets.lease(WINDOW, spending(1), { ...LIMIT, calls: 5 }), spending(0))
      assert.deepEqual(await budgets.lease(WINDOW, spending(20), { ...LIMIT, calls: 20 }), spending(12))
      const endless = { calls: NO_LIMIT, milliseconds: NO_LIMIT, cost: NO_LIMIT }
      assert.deepEqual(await budgets.lease(WINDOW, spending(1, 2, 3), endless), spending(1, 2, 3))
    },
  },
  {
    name: 'windows are forgotten a day after they end, and not before',
    async run(open) {
      const store = await open()
      await store.budgets.lease(WINDOW, spending(1), LIMIT)
      await purgeAll(store, HOUR_MS + DAY_MS)
      assert.deepEqual(await store.budgets.read(WINDOW), spending(1))
      await purgeAll(store, HOUR_MS + DAY_MS + 1)
      assert.deepEqual(await store.budgets.read(WINDOW), spending(0))
    },
  },
  {
    name: 'a refused call is told to a run that is there, as a pair without a duration (C10, OWP-53)',
    async run(open) {
      const store = await open()
      const place = placeAt('run-a')
      assert.equal(await store.noteRefusal(sampleRefusal({ place })), false)
      assert.equal(await store.findRun(place), undefined)
      await runThrough(store, sampleCall({ record: 'record-0', place }))
      assert.equal(await store.noteRefusal(sampleRefusal({ place })), true)
      const [, , called, returned] = await eventsOf(store, place.run)
      const call = {
        callId: 'call-1',
        toolId: 'openwop:Doorbell.Ring',
        transport: 'native',
        argsHash: '0'.repeat(64),
        traceId: sampleRefusal({ place }).traceId,
      }
      const both = { record: 'record-1', attempt: 1, call, atMs: 1_000 }
      assert.deepEqual(called, { type: 'called', ...both, principal: 'key:alice', sequence: 2 })
      assert.deepEqual(returned, { type: 'returned', ...both, code: 'rate_limited', sequence: 3 })
      assert.equal((await store.findRun(place))?.open, 0)
      assert.equal(await store.find({ tenant: 'default', record: 'record-1' }), undefined)
    },
  },
  {
    name: 'a refused call is told to no run that has ended or is another tenant’s',
    async run(open) {
      const store = await open()
      const place = placeAt('run-a')
      await runThrough(store, sampleCall({ record: 'record-0', place }))
      assert.equal(await store.noteRefusal(sampleRefusal({ place: { ...place, tenant: 'other' } })), false)
      await store.endRun(place, 2_000)
      assert.equal(await store.noteRefusal(sampleRefusal({ place, atMs: 2_001 })), false)
      assert.equal((await eventsOf(store, place.run)).length, 2)
    },
  },
]
