import assert from 'node:assert/strict'
import type { ChallengeNeed, Store } from '#core/ports/store'
import type { AskedConsent } from '#core/ports/vault-store'
import { RUN_IDLE_MS } from '#core/runs/runs'
import type { ContractCase } from './contract.ts'
import { gistOfRun, placeAt } from './contract-steps.ts'
import { sampleCall } from './sample-call.ts'

const PLACE = placeAt('run-a')
const { run: RUN } = PLACE
const NEED: ChallengeNeed = {
  tenant: 'default',
  principal: 'key:alice',
  user: '',
  provider: 'mailer',
  scopes: ['mail.read'],
}
const GIVEN = {
  as: 'completed',
  credential: { ref: 'cred_1', scopes: ['mail.read'] },
  atMs: 2_000,
} as const

function asked(changes: Partial<AskedConsent> = {}): AskedConsent {
  return {
    tenant: 'default',
    record: 'record-1',
    principal: 'key:alice',
    callId: 'call-1',
    toolId: 'openwop:Mail.Read',
    transport: 'native',
    argsHash: '0'.repeat(64),
    place: PLACE,
    traceId: 'trace-1',
    userId: undefined,
    challenge: 'challenge-1',
    need: NEED,
    url: 'http://127.0.0.1/challenges/challenge-1',
    hasExpired: false,
    expiresAtMs: 601_000,
    atMs: 1_000,
    ...changes,
  }
}

const QUESTION = ['consent asked record-1 mailer call-1', 'consent suspended record-1']

/** What every store promises about the consents that calls wait for. */
export const CONSENT_RUN_CONTRACT: readonly ContractCase<Store>[] = [
  {
    name: 'OWP-64, OWP-65: a run is told once per challenge and call, also when everybody asks at once',
    async run(open) {
      const store = await open()
      const told = await Promise.all(Array.from({ length: 8 }, () => store.consents.runs.tell(asked())))
      assert.deepEqual(new Set(told), new Set([true]))
      assert.deepEqual(await gistOfRun(store, RUN), QUESTION)
      const journal = (await store.readJournal([], 1_000)).flatMap((group) => group.events)
      const said = journal.filter(({ type }) => type === 'challenge.asked')
      assert.deepEqual(
        said.map((event) => 'sequence' in event && [event.run, event.sequence]),
        [[RUN, 0]],
      )
    },
  },
  {
    name: 'OWP-79: the end is told once, with the reference of the credential, to all that wait for it',
    async run(open) {
      const store = await open()
      const { runs } = store.consents
      await runs.tell(asked())
      await runs.tell(asked({ record: 'record-2', callId: 'call-2', place: placeAt('run-b') }))
      await runs.tell(asked({ record: 'record-3', challenge: 'other', need: { ...NEED, user: 'bob' } }))
      const told = await runs.resolve(NEED, GIVEN)
      assert.deepEqual([...told].sort(), [RUN, placeAt('run-b').run].sort())
      assert.deepEqual(await runs.resolve(NEED, GIVEN), [])
      assert.deepEqual((await gistOfRun(store, placeAt('run-b').run)).slice(2), [
        'authorized mailer cred_1',
        'consent accept record-2',
      ])
      assert.ok(!(await gistOfRun(store, RUN)).includes('consent accept record-3'))
    },
  },
  {
    name: 'OWP-71, OWP-78: a no, a renewal that was refused and a time that is over are told as such',
    async run(open) {
      const store = await open()
      const { runs } = store.consents
      await runs.tell(asked({ hasExpired: true }))
      assert.deepEqual(await runs.expire(600_999), [])
      assert.deepEqual(await runs.expire(601_000), [RUN])
      await runs.tell(asked({ challenge: 'challenge-2', atMs: 602_000, expiresAtMs: 700_000 }))
      await runs.resolve(NEED, { as: 'failed', reason: 'denied', atMs: 603_000 })
      assert.deepEqual(await gistOfRun(store, RUN), [
        'auth expired mailer',
        ...QUESTION,
        'consent reject record-1 timeout',
        ...QUESTION,
        'consent reject record-1 denied',
      ])
    },
  },
  {
    name: 'OWP-79: a token that its caller brought is no credential of ours to name',
    async run(open) {
      const store = await open()
      await store.consents.runs.tell(asked())
      await store.consents.runs.resolve(NEED, { as: 'completed', atMs: 2_000 })
      assert.deepEqual(await gistOfRun(store, RUN), [...QUESTION, 'consent accept record-1'])
    },
  },
  {
    name: 'a run that has ended is told nothing more',
    async run(open) {
      const store = await open()
      const { runs } = store.consents
      await runs.tell(asked())
      await store.endRun({ tenant: 'default', run: RUN }, 1_500)
      assert.equal(await runs.tell(asked({ record: 'record-2', atMs: 1_600 })), false)
      assert.deepEqual(await runs.resolve(NEED, GIVEN), [])
      assert.deepEqual(await gistOfRun(store, RUN), QUESTION)
    },
  },
  {
    name: 'rule 20: the own run of a call is told until there is a call, which then runs whatever the time',
    async run(open) {
      const store = await open()
      const { runs } = store.consents
      const place = placeAt('run_record-1', { run: 'record-1' })
      assert.equal(await runs.tell(asked({ place })), true)
      const atMs = 2_000 + RUN_IDLE_MS
      assert.equal((await store.claim(sampleCall({ atMs }))).kind, 'claimed')
      assert.deepEqual(await runs.resolve(NEED, { ...GIVEN, atMs }), [])
      assert.equal(await runs.tell(asked({ place, challenge: 'challenge-2', atMs })), false)
      assert.deepEqual(await gistOfRun(store, 'record-1'), QUESTION)
    },
  },
]
