import assert from 'node:assert/strict'
import type { NewApproval } from '#kernel/approval/approval'
import { nameOfRule } from '#stages/standing-rules/standing-rules'
import type { NewStandingRule } from '#store/approvals/standing-rules'
import type { Store } from '#store/collet-store'
import { sampleParking } from './approval-store-contract.ts'
import type { ContractCase } from './contract-case.ts'
import { it, purgeAll, sampleCall } from './samples.ts'

function sampleRule(changes: Partial<NewStandingRule> = {}): NewStandingRule {
  const call = sampleCall()
  return {
    ...{ id: 'rule-1', tenant: call.tenant, principal: call.principal, tool: call.tool, tier: call.tier },
    ...{ definitionHash: call.definitionHash, userId: 'ann', isUserProven: false, credentials: 'tag' },
    conditions: [{ path: '/doorbell_id', equals: 'doorbell42' }],
    ...{ maxUses: 2, expiresAtMs: 60_000, reason: 'Rings are harmless.', approval: 'approval-0' },
    ...{ createdBy: 'key:bob', createdAtMs: 1_000, ...changes },
  }
}

/** Parks call `n`, whose approval the rule may grant in the same transaction. */
async function parkWith(store: Store, rule: string, n: number, atMs = 1_500): Promise<string> {
  const call = sampleCall({ record: `record-${n}`, callId: `call-${n}`, atMs })
  const approval: Partial<NewApproval> = { id: `approval-${n}`, expiresAtMs: atMs + 60_000 }
  const use = { rule, tenant: call.tenant, approval: `approval-${n}`, atMs, opaque: `prn_${rule}` }
  const parking = sampleParking(approval, { grantByRule: store.standingRules.use(use) })
  const parked = await store.approvals.park(call, parking)
  assert.equal(parked.kind, 'parked')
  return parked.kind === 'parked' ? parked.approval.state : ''
}

async function usesOf(store: Store): Promise<number | undefined> {
  return (await store.standingRules.find('rule-1'))?.uses
}

/** The contract of every store for standing rules. */
export const STANDING_RULE_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  it('a rule is returned unchanged, and found for its tool and caller until it expires', async (store) => {
    await store.standingRules.create(sampleRule())
    const expected = { ...sampleRule(), uses: 0, revokedBy: undefined, revokedAtMs: undefined }
    assert.deepEqual(await store.standingRules.find('rule-1'), expected)
    const { tenant, principal, tool } = sampleRule()
    const listed = async (about: object, nowMs = 2_000) =>
      (await store.standingRules.listFor({ tenant, principal, tool, ...about }, nowMs)).length
    assert.equal(await listed({}), 1)
    for (const other of [{ tenant: 'rival' }, { principal: 'key:eve' }, { tool: 'Other.Tool@1.0.0' }])
      assert.equal(await listed(other), 0)
    assert.equal(await listed({}, 60_000), 0)
  }),
  it('a rule grants in the transaction that requests, counts each use, and ends when it is used up', async (store) => {
    await store.standingRules.create(sampleRule())
    assert.equal(await parkWith(store, 'rule-1', 1), 'granted')
    assert.equal(await parkWith(store, 'rule-1', 2), 'granted')
    assert.equal(await parkWith(store, 'rule-1', 3), 'pending')
    assert.equal(await usesOf(store), 2)
    const approval = await store.approvals.findById('approval-1')
    assert.deepEqual(
      approval?.decisions.map(({ by, action }) => [by, action]),
      [[nameOfRule('rule-1'), 'grant']],
    )
    const kinds = (await store.readJournal([], 1_000)).flatMap(({ events }) => events.map(({ type }) => type))
    assert.equal(kinds.filter((type) => type === 'approval.granted').length, 2)
  }),
  it('of many simultaneous requests exactly as many are granted as the rule allows', async (store) => {
    await store.standingRules.create(sampleRule({ maxUses: 5 }))
    const states = await Promise.all(Array.from({ length: 20 }, (_, n) => parkWith(store, 'rule-1', n + 1)))
    assert.equal(states.filter((state) => state === 'granted').length, 5)
    assert.equal(await usesOf(store), 5)
  }),
  it('a rule that was revoked, has expired or is unknown grants nothing', async (store) => {
    await store.standingRules.create(sampleRule())
    assert.equal(await parkWith(store, 'rule-2', 1), 'pending')
    assert.equal(await parkWith(store, 'rule-1', 2, 60_000), 'pending')
    const revocation = { rule: 'rule-1', by: 'key:bob', atMs: 2_000 }
    assert.equal(await store.standingRules.revoke({ ...revocation, tenant: 'rival' }), false)
    assert.equal(await store.standingRules.revoke({ ...revocation, tenant: 'default' }), true)
    assert.equal(await store.standingRules.revoke({ ...revocation, tenant: undefined }), false)
    assert.equal(await parkWith(store, 'rule-1', 3), 'pending')
    assert.equal(await usesOf(store), 0)
  }),
  it('lists have the newest first, of one tenant or all, and keep ended rules until retention forgets them', async (store) => {
    await store.standingRules.create(sampleRule())
    await store.standingRules.create(sampleRule({ id: 'rule-2', tenant: 'acme', expiresAtMs: 3_000 }))
    const idsOf = async (page: { tenant?: string; isWhole: boolean; nowMs: number }) =>
      (await store.standingRules.list({ limit: 10, ...page })).map(({ id }) => id)
    assert.deepEqual(await idsOf({ isWhole: false, nowMs: 2_000 }), ['rule-2', 'rule-1'])
    assert.deepEqual(await idsOf({ isWhole: false, nowMs: 3_000 }), ['rule-1'])
    assert.deepEqual(await idsOf({ isWhole: true, nowMs: 3_000, tenant: 'acme' }), ['rule-2'])
    await purgeAll(store, 4_000 + 400 * 86_400_000)
    assert.deepEqual(await idsOf({ isWhole: true, nowMs: 3_000 }), [])
  }),
]
