import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Secret } from '#kernel/base/secret'
import type { Store } from '#store/collet-store'
import type { NewCredential } from '#store/vault'
import { sampleParking, yesOf } from '../contracts/approval-store-contract.ts'
import { gistOfRun, POLICY, sampleCall, sampleSession, scopeAt, success } from '../contracts/samples.ts'
import { useDatabase } from './databases.ts'

/**
 * What goes wrong, and at once, when several processes run logic that was written for one writer in transactions that see
 * what the others commit. Five of these fail in their first rounds when exclusive changes take no lock.
 */
const WRITERS = 4
const ROUNDS = 10
const FAR_MS = 1e12

const database = useDatabase('anomalies')
let stores: readonly Store[]

beforeEach(async () => {
  stores = await Promise.all(Array.from({ length: WRITERS }, () => database.open()))
  for (const store of stores) await store.probe()
})
afterEach(async () => {
  expect(await storeAt(0).verify()).toMatchObject({ ok: true })
})

function storeAt(index: number): Store {
  const store = stores[index]
  if (store === undefined) throw new Error('no such store')
  return store
}

/** Runs all writers concurrently. */
function each<T>(act: (store: Store, index: number) => T | Promise<T>): Promise<readonly T[]> {
  return Promise.all(stores.map(async (store, index) => await act(store, index)))
}

const rounds = Array.from({ length: ROUNDS }, (_, round) => round)

describe('four writers of one database', () => {
  it('rule 1: claim each of many calls once', async () => {
    const calls = rounds.flatMap((round) => [
      sampleCall({ record: `left-${round}` }),
      sampleCall({ record: `right-${round}` }),
    ])
    const claims = await each((store) => Promise.all(calls.map((call) => store.claim(call))))
    for (const index of calls.keys()) {
      expect(claims.filter((of) => of[index]?.kind === 'claimed')).toHaveLength(1)
    }
  })

  it('rule 30: begin calls only in their own sessions, and none in a closing session', async () => {
    for (const round of rounds) {
      const session = sampleSession(`ses_${round}`, { scope: scopeAt(`run-${round}`) })
      const call = (record: string) =>
        sampleCall({
          record: `${record}-${round}`,
          scope: session.scope,
          session: { sessionId: session.sessionId, isOwn: false },
        })
      await storeAt(0).openSession(session)
      expect(await storeAt(1).claim(call('foreign'))).toEqual({ kind: 'session_ended' })
      // Another writer begins to close the session while its holder begins a call.
      await Promise.all([storeAt(0).claim(call('own')), storeAt(2).beginSessionClose(session)])
      expect(await storeAt(0).claim(call('late'))).toEqual({ kind: 'session_ended' })
      // Only its holder knows that no call is running in it.
      expect(await storeAt(2).closeSession(session, 'failed', 2_000)).toBe(false)
      expect(await storeAt(0).closeSession(session, 'failed', 2_000)).toBe(true)
      expect((await gistOfRun(storeAt(0), session.scope.run)).at(-1)).toBe(`closed ses_${round} failed`)
    }
  })

  it('rule 22: never lease more than the budget', async () => {
    const unit = (calls: number) => ({ calls, milliseconds: 0, cost: 0 })
    for (const round of rounds) {
      const window = { tenant: 'default', principal: 'key:alice', lengthMs: 1_000, startMs: round * 1_000 }
      const lent = await each((store) => store.budgets.lease(window, unit(6), unit(10), 1_000))
      expect(lent.reduce((sum, { calls }) => sum + calls, 0)).toBe(10)
    }
  })

  it('rule 21: grant a call that two approvers approve concurrently', async () => {
    for (const round of rounds) {
      const id = `approval-${round}`
      const call = sampleCall({ record: id, callId: id })
      await storeAt(0).approvals.park(call, sampleParking({ id, quorum: 2, expiresAtMs: FAR_MS }))
      await Promise.all([
        storeAt(1).approvals.decide(yesOf('key:bob', { id })),
        storeAt(2).approvals.decide(yesOf('key:carol', { id })),
      ])
      expect((await storeAt(3).approvals.find({ tenant: 'default', id }))?.state).toBe('granted')
    }
  })

  it('OWP-92: begin a request with a key once', async () => {
    for (const round of rounds) {
      const request = { tenant: 'default', id: `request-${round}`, asked: 'x', expiresAtMs: FAR_MS }
      const begun = await each((store) => store.requests.begin(request))
      expect(begun.filter(({ kind }) => kind === 'begun')).toHaveLength(1)
    }
  })

  it('rule 22: park no more calls than a principal may have', async () => {
    for (const round of rounds) {
      const parked = await each((store, index) => {
        const id = `parked-${round}-${index}`
        const call = sampleCall({ record: id, callId: id, principal: `key:${round}` })
        return store.approvals.park(call, sampleParking({ id, expiresAtMs: FAR_MS }, { maxParked: 2 }))
      })
      expect(parked.filter(({ kind }) => kind === 'parked')).toHaveLength(2)
    }
  })

  it('rule 16: begin nothing in a run that has ended', async () => {
    for (const round of rounds) {
      const scope = scopeAt(`run-${round}`)
      await storeAt(0).claim(sampleCall({ record: `first-${round}`, scope }))
      await each<unknown>((store, index) =>
        index === 1
          ? store.endRun(scope, 5_000)
          : store.claim(sampleCall({ record: `beside-${round}-${index}`, scope })),
      )
      const late = await storeAt(0).claim(sampleCall({ record: `last-${round}`, scope }))
      expect(late.kind).toBe('run_ended')
      const events = await storeAt(2).readRun(scope, -1, 100)
      expect(events.map(({ sequence }) => sequence)).toEqual([...events.keys()])
    }
  })

  it('grant a rate once', async () => {
    const rate = { perMs: 1e-9, burst: 50, nowMs: 1_000 }
    for (const round of rounds) {
      const taken = await each(async ({ rates }) => {
        const all = await Promise.all([1, 2, 3].map(async () => await rates.take(`of ${round}`, 7, rate)))
        return all.reduce((sum, { tokens }) => sum + tokens, 0)
      })
      expect(taken.reduce((sum, tokens) => sum + tokens, 0)).toBe(50)
    }
  })

  it('rule 13: purge results concurrently, but none before its time', async () => {
    const end = (atMs: number) => ({ state: 'succeeded' as const, outcome: success('1'), atMs })
    const calls = (name: string) =>
      rounds.map((nth) => sampleCall({ record: `${name}-${nth}`, tier: 'read' }))
    const [old, young] = [calls('old'), calls('young')]
    await Promise.all([
      ...old.map((call) => storeAt(0).insertFinished(call, end(1_000))),
      ...young.map((call) => storeAt(0).insertFinished(call, end(FAR_MS))),
    ])
    await each((store) => store.purge(1_001 + POLICY.resultsMs, POLICY))
    for (const call of old) expect(await storeAt(3).find(call)).toBeUndefined()
    for (const call of young) expect((await storeAt(3).find(call))?.outcome).toEqual(success('1'))
  })

  it('take turns at exclusive work', async () => {
    const taken = await each((store) => store.takeTurn('work', 60_000))
    expect(taken.filter(Boolean)).toHaveLength(1)
    expect(await each((store) => store.takeTurn('other work', 0))).toContain(true)
    await vi.waitUntil(() => storeAt(3).takeTurn('other work', 0), 5_000)
  })

  it('rule 24: keep every credential readable while the key of the vault is replaced', async () => {
    const credentials = rounds.flatMap((nth) => [credential(`left-${nth}`), credential(`right-${nth}`)])
    await storeAt(0).vault.put(credential('first'))
    for (const round of rounds) {
      const [left, right] = credentials.slice(2 * round, 2 * round + 2)
      if (left === undefined || right === undefined) throw new Error('no credentials')
      await Promise.all([
        storeAt(1).vault.rotate('cli:ann', 2_000),
        storeAt(2).vault.put(left),
        storeAt(3).vault.put(right),
      ])
    }
    for (const put of credentials) {
      const found = await storeAt(0).vault.find(put)
      expect(found?.ref).toBe(put.ref)
    }
  })
})

function credential(provider: string): NewCredential {
  return {
    ...{
      tenant: 'default',
      principal: 'key:alice',
      user: '',
      kind: 'token',
      provider,
      ref: `cred_${provider}`,
    },
    ...{ value: new Secret('value'), scopes: [], expiresAtMs: undefined, by: 'cli:ann', atMs: 1_000 },
  }
}
