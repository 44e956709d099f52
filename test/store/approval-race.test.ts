import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Store } from '#store/collet-store'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { sampleParking, yesOf } from '../contracts/approval-store-contract.ts'
import { sampleCall } from '../contracts/samples.ts'

const ROUNDS = 40
const masterKey = Buffer.alloc(32, 5)
const resumption = { rerunUntilMs: 0, session: undefined, binding: 'binding-1' }

describe('two writers on one file', () => {
  let folder = ''
  let left: Store
  let right: Store

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-approval-race-'))
    const open = () => openSqliteStore({ path: join(folder, 'collet.db'), masterKey })
    left = open()
    right = open()
  })
  afterEach(async () => {
    await Promise.all([left.close(), right.close()])
    rmSync(folder, { recursive: true, force: true })
  })

  async function parkOne(round: number) {
    const record = `record-${round}`
    const id = `approval-${round}`
    const call = sampleCall({ record, callId: `call-${round}` })
    await left.approvals.park(call, sampleParking({ id, expiresAtMs: 10_000 }))
    return { id, record }
  }
  const stateOf = async (record: string) => (await left.find({ tenant: 'default', record }))?.state

  it('OWP-68, OWP-71: of a concurrent approval and timeout one takes effect, and both stores agree', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const { id, record } = await parkOne(round)
      const [decided, ended] = await Promise.all([
        left.approvals.decide(yesOf('key:bob', { id, atMs: 9_999 })),
        right.approvals.expire(10_000),
      ])
      const wins = [decided.kind === 'decided', ended.some((one) => one.record === record)]
      expect(wins.filter((won) => won)).toHaveLength(1)
      expect(await stateOf(record)).toBe(wins[0] ? 'parked' : 'failed')
      expect((await right.approvals.findById(id))?.state).toBe(wins[0] ? 'granted' : 'expired')
    }
  })

  it('rule 20: of two attempts on one grant and a cancel one takes effect', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const { id, record } = await parkOne(round)
      await left.approvals.decide(yesOf('key:bob', { id }))
      const previous = (await left.find({ tenant: 'default', record })) ?? expect.fail('it is gone')
      const grant = { ...resumption, approvalId: id, atMs: 3_000 }
      const [first, second, cancelled] = await Promise.all([
        left.approvals.resume(previous, grant),
        right.approvals.resume(previous, grant),
        right.approvals.cancel({ tenant: 'default', record }, 'key:alice', 3_000),
      ])
      const wins = [first.kind === 'claimed', second.kind === 'claimed', cancelled.length > 0]
      expect(wins.filter((won) => won)).toHaveLength(1)
      expect(await stateOf(record)).toBe(wins[2] ? 'failed' : 'running')
    }
  })
})
