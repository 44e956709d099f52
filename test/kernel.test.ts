import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { tool } from '#index'
import { DEFAULT_APPROVAL_RULES } from '#kernel/approval/approvals'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { newCallId } from '#kernel/base/ids'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { openKernel } from '#kernel/call/gateway'
import { KERNEL_MODULES } from '#kernel/store/kernel-modules'
import { defineStore } from '#kernel/store/module'
import { openSqlite } from '#kernel/store/sqlite/open'
import { createStore } from '#kernel/store/store'
import { Registry } from '#kernel/tool/catalog'
import { requireTools } from '#kernel/tool/prepare-tools'
import { ALICE, callRequest, gist } from '#testing/test-gateway'

const folder = mkdtempSync(join(tmpdir(), 'collet-kernel-'))
afterAll(() => rmSync(folder, { recursive: true }))
const path = join(folder, 'kernel.db')
const masterKey = randomBytes(32)
const definition = defineStore(KERNEL_MODULES)

const effects: string[] = []
const base = { description: 'Writes.', input: { type: 'object' }, output: {} } as const
const write = { safetyTier: 'write', replay: 'non-deterministic' } as const
const tools = requireTools([
  tool({ ...base, id: 'Note.Write@1.0.0', policy: write, run: () => effects.push('write') }),
  tool({
    ...base,
    id: 'Note.Pay@1.0.0',
    policy: { ...write, approval: 'always' },
    run: () => effects.push('pay'),
  }),
])

function open() {
  const store = createStore(openSqlite(definition, { path, masterKey }), () => ({}))
  const gateway = openKernel({
    registry: new Registry(tools),
    ...{ store, clock: SYSTEM_CLOCK, log: SILENT_LOGGER, fetch, hooks: {}, newCallId },
    newChallengeId: newCallId,
    approvalRules: DEFAULT_APPROVAL_RULES,
    maxResultBytes: 1_000_000,
    publicUrl: () => 'http://127.0.0.1:4100',
  })
  return {
    gateway,
    store,
    async close() {
      await gateway.drain(0)
      await store.close()
    },
  }
}

/** The kernel with its own modules and no stages: what a durable call needs, and nothing else. */
describe('the kernel alone', () => {
  it('runs a write once, also across a restart', async () => {
    const first = open()
    expect(gist(await first.gateway.call(ALICE, callRequest('Note.Write', { key: 'k1' })))).toBe('ok 1')
    await first.close()
    const second = open()
    const again = await second.gateway.call(ALICE, callRequest('Note.Write', { key: 'k1' }))
    expect(gist(again)).toBe('ok 1')
    expect(again.replayed).toBe(true)
    expect(effects).toEqual(['write'])
    await second.close()
  })

  it('parks a call, keeps the approval across a restart, and runs it once approved', async () => {
    const request = callRequest('Note.Pay', { key: 'k2' })
    const first = open()
    expect(gist(await first.gateway.call(ALICE, request))).toBe('approval_required')
    await first.close()
    const second = open()
    const approver = { id: 'key:boss', tenant: 'default', scopes: ['approvals:respond'] }
    const [pending] = await second.store.approvals.list({ state: 'pending', limit: 1 })
    if (pending === undefined) throw new Error('nothing waits for approval')
    await second.gateway.approvals.decide(approver, pending, { action: 'grant', reason: undefined })
    expect(gist(await second.gateway.call(ALICE, request))).toBe('ok 2')
    expect(gist(await second.gateway.call(ALICE, request))).toBe('ok 2')
    expect(effects).toEqual(['write', 'pay'])
    await second.close()
  })
})
