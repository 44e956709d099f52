import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ANONYMOUS, type Principal } from '#kernel/base/principal'
import { tool } from '#kernel/tool/define'
import { createGateway, type Gateway } from './create-gateway.ts'

const ran: unknown[] = []
const pay = tool({
  id: 'Bank.Pay@1.0.0',
  description: 'Pays.',
  input: { type: 'object' },
  output: {},
  policy: { approval: 'always' },
  run: (input) => ran.push(input),
})
const caller: Principal = { id: 'key:agent', tenant: 'acme', scopes: ['approvals:respond'] }
const boss: Principal = { id: 'user:boss', tenant: 'acme', scopes: ['approvals:respond'] }
const clerk: Principal = { id: 'user:clerk', tenant: 'acme', scopes: [] }
const rival: Principal = { id: 'user:boss', tenant: 'rival', scopes: ['*'] }

let folder: string
let gateway: Gateway

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-gateway-'))
  const approvals = { perTool: { 'Bank.Pay': { expiresAfterMs: 60_000 } } }
  gateway = await createGateway({ tools: [pay], approvals, log: { level: 'silent' } }, { folder })
})
afterAll(async () => {
  await gateway.close()
  rmSync(folder, { recursive: true })
})

const call = (key: string) => gateway.call('Bank.Pay', { amount: 5 }, { key, principal: caller })

async function park(key: string): Promise<string> {
  const outcome = await call(key)
  const id = outcome.ok ? undefined : outcome.error.details?.missing?.approval?.id
  return id ?? expect.fail('the call was not parked')
}

describe('approvals of a gateway in this process', () => {
  it('rule 20: are listed, shown and granted; a decision runs nothing, the repeated call runs once', async () => {
    const id = await park('yes')
    const [listed] = await gateway.approvals.list(boss, { state: 'pending', limit: 1 })
    expect(listed).toMatchObject({ id, principal: 'key:agent', tool: 'Bank.Pay@1.0.0', input: { amount: 5 } })
    expect(await gateway.approvals.show(boss, id)).toEqual(listed)
    const granted = await gateway.approvals.approve(boss, id, { reason: 'fine' })
    expect(granted).toMatchObject({ state: 'granted', decisions: [{ by: 'user:boss', reason: 'fine' }] })
    expect(ran).toHaveLength(0)
    for (const _ of [1, 2]) expect((await call('yes')).ok).toBe(true)
    expect(ran).toHaveLength(1)
    expect((await gateway.approvals.show(boss, id))?.state).toBe('used')
    await expect(gateway.approvals.reject(boss, id)).rejects.toThrow('already been decided')
  })

  it('a denial is final', async () => {
    const id = await park('no')
    expect((await gateway.approvals.reject(boss, id, { reason: 'too much' })).state).toBe('rejected')
    expect(await call('no')).toMatchObject({ ok: false, error: { code: 'approval_rejected' } })
  })

  it('rules 2, 3, 29: are decided only by an approver with the scope, in the tenant, who is not the caller', async () => {
    const id = await park('refused')
    const { approvals } = gateway
    await expect(approvals.approve(ANONYMOUS, id)).rejects.toMatchObject({ code: 'unauthenticated' })
    await expect(approvals.approve(clerk, id)).rejects.toMatchObject({ code: 'not_authorized' })
    await expect(approvals.list(clerk)).rejects.toMatchObject({ code: 'not_authorized' })
    await expect(approvals.approve(caller, id)).rejects.toThrow('cannot approve its own call')
    await expect(approvals.approve(boss, id, { override: true, reason: 'x' })).rejects.toThrow(
      'approvals:override',
    )
    await expect(approvals.approve(boss, id, { override: true })).rejects.toThrow('needs a `reason`')
    await expect(approvals.approve(rival, id)).rejects.toThrow('There is no approval')
    expect(await approvals.show(rival, id)).toBeUndefined()
    expect(await approvals.list(rival)).toEqual([])
    await expect(approvals.list(boss, { limit: -1 })).rejects.toThrow('limit: expected a whole number')
    expect((await approvals.show(boss, id))?.decisions).toEqual([])
  })
})
