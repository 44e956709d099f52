import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { ALICE, callRequest, gist, openTestGateway } from '#testing/test-gateway'
import { sampleTool } from '../contracts/samples.ts'
import { StoreFolder } from './store-folder.ts'

const RING = 'Bell.Ring@1.0.0'
const BOB = { id: 'key:bob', tenant: 'default', scopes: ['approvals:respond'] }

let folder: StoreFolder
beforeEach(() => {
  folder = new StoreFolder()
})
afterEach(async () => {
  await folder.remove()
})

it('a request that waits for approval sees a decision made in another process', async () => {
  const tool = sampleTool(RING, () => 'rung', { policy: { approval: 'always' } })
  const [own, other] = [folder.open(), folder.open()].map((store) => openTestGateway([tool], { store }))
  if (own === undefined || other === undefined) throw new Error('there are no gateways')
  const waiting = own.call(ALICE, callRequest(RING, { key: 'k', waitMs: 30_000 }))
  const asked = await vi.waitFor(async () => {
    const [found] = await other.store.approvals.list({ limit: 1 })
    return found ?? expect.fail('no approval was requested yet')
  })
  await other.approvals.decide(BOB, asked, { action: 'grant', reason: undefined })
  expect(gist(await waiting)).toBe('ok "rung"')
  await Promise.all([own.drain(0), other.drain(0)])
})
