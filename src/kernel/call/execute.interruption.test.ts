import { describe, expect, it } from 'vitest'
import { SILENT_LOGGER } from '#kernel/base/logger'
import type { ToolContext } from '#kernel/tool/tool'
import type { Store } from '#store/collet-store'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import {
  ALICE,
  callRequest,
  errorOf,
  faultyStore,
  gist,
  openTestGateway,
  type StoreMethod,
} from '#testing/test-gateway'
import { allCommitted } from '../../../test/all-committed.ts'
import { sampleTool } from '../../../test/contracts/samples.ts'

const WAIT = 'Slow.Wait@1.0.0'

/** A tool that waits until the test answers it, and reports when it was aborted. */
function waitingTool(policy: Parameters<typeof sampleTool>[2] = {}) {
  const answer = Promise.withResolvers<unknown>()
  const started = Promise.withResolvers<ToolContext>()
  const state = { runs: 0 }
  const tool = sampleTool(
    WAIT,
    (_input, context) => {
      state.runs += 1
      started.resolve(context)
      return answer.promise
    },
    policy,
  )
  return { tool, answer, started: started.promise, state }
}

describe('interrupting a run', () => {
  it('T-05, rule 10: a timeout aborts the signal, is final, and a late result changes nothing', async () => {
    const { tool, answer, started, state } = waitingTool({ policy: { timeoutMs: 20 } })
    const store = openMemoryStore()
    const gateway = openTestGateway([tool], { store })
    const reply = gateway.call(ALICE, callRequest(WAIT, { key: 'k' }))
    const { signal } = await started
    const error = errorOf(await reply)
    expect(error).toMatchObject({ code: 'tool_timeout', canRetry: false, effect: 'unknown' })
    expect(error.message).toContain('check before repeating')
    expect(signal.aborted).toBe(true)
    expect(gateway.running.slots).toBe(1)
    answer.resolve('late')
    await answer.promise
    await allCommitted(store)
    expect(gateway.running.slots).toBe(0)
    expect(gist(await gateway.call(ALICE, callRequest(WAIT, { key: 'k' })))).toBe('tool_timeout')
    expect(state.runs).toBe(1)
    const groups = await store.readJournal([], 10)
    const types = groups.flatMap(({ events }) => events.map(({ type }) => type))
    expect(types).toEqual(['writer.started', 'call.claimed', 'call.failed', 'call.late'])
  })

  it('rule 10: a timed-out read has no unknown effect', async () => {
    const { tool, answer } = waitingTool({ policy: { timeoutMs: 5, safetyTier: 'read' } })
    const error = errorOf(await openTestGateway([tool]).call(ALICE, callRequest(WAIT)))
    expect(error).toMatchObject({ code: 'tool_timeout', canRetry: false })
    expect(error.effect).toBeUndefined()
    answer.resolve(1)
  })

  it('rule 10: the call’s own principal cancels it; no other principal can', async () => {
    const { tool, answer, started } = waitingTool()
    const gateway = openTestGateway([tool])
    const reply = gateway.call(ALICE, callRequest(WAIT, { key: 'k' }))
    await started
    expect(await gateway.cancelCall({ ...ALICE, id: 'key:bob' }, 'k')).toBeUndefined()
    expect((await gateway.readCall(ALICE, 'k'))?.state).toBe('running')
    expect((await gateway.cancelCall(ALICE, 'k'))?.state).toBe('failed')
    expect(errorOf(await reply)).toMatchObject({ code: 'cancelled', effect: 'unknown' })
    answer.resolve(1)
    expect((await gateway.cancelCall(ALICE, 'k'))?.state).toBe('failed')
  })

  it('OTC/T-20: the abort of a cancelled run is not logged as an error, what its tool throws otherwise is', async () => {
    const errors: unknown[] = []
    const log = { ...SILENT_LOGGER, error: (line: object | string) => void errors.push(line) }
    const endsWith = async (makeError: (signal: AbortSignal) => unknown) => {
      const { tool, answer, started } = waitingTool()
      const gateway = openTestGateway([tool], { log })
      const reply = gateway.call(ALICE, callRequest(WAIT, { key: 'k' }))
      const { signal } = await started
      await gateway.cancelCall(ALICE, 'k')
      answer.reject(makeError(signal))
      await reply
      await expect.poll(() => gateway.running.slots).toBe(0)
    }
    await endsWith((signal) => signal.reason)
    await endsWith(
      (signal) => new DOMException('The operation was aborted', { name: 'AbortError', cause: signal.reason }),
    )
    expect(errors).toEqual([])
    await endsWith(() => new Error('cannot clean up'))
    expect(errors).toHaveLength(1)
  })

  it('drains: refuses new calls, lets the running one finish, still returns earlier outcomes', async () => {
    const { tool, answer, started } = waitingTool()
    const quick = sampleTool('Slow.Quick@1.0.0', () => 'done')
    const gateway = openTestGateway([tool, quick])
    await gateway.call(ALICE, callRequest('Slow.Quick', { key: 'earlier' }))
    const reply = gateway.call(ALICE, callRequest(WAIT))
    await started
    const drained = gateway.drain(10_000)
    expect([gateway.isReady(), gateway.unavailableReason()]).toEqual([false, 'stopping'])
    expect(gist(await gateway.call(ALICE, callRequest('Slow.Quick', { key: 'new' })))).toBe('not_ready')
    expect(gist(await gateway.call(ALICE, callRequest('Slow.Quick', { key: 'earlier' })))).toBe('ok "done"')
    answer.resolve('finished')
    await drained
    expect(gist(await reply)).toBe('ok "finished"')
  })

  it('drains: a run that exceeds the grace period is cancelled with an unknown effect', async () => {
    const { tool, started } = waitingTool()
    const gateway = openTestGateway([tool])
    const reply = gateway.call(ALICE, callRequest(WAIT))
    await started
    await gateway.drain(5)
    expect(errorOf(await reply)).toMatchObject({ code: 'cancelled', effect: 'unknown' })
  })
})

describe('a store that fails', () => {
  it('rule 11: if the claim cannot be written, nothing runs, and the gateway is not ready until a probe succeeds', async () => {
    const failing = new Set<StoreMethod>(['claim', 'probe'])
    const { tool, state } = waitingTool()
    const gateway = openTestGateway([tool], { store: faultyStore(openMemoryStore(), failing) })
    expect(gist(await gateway.call(ALICE, callRequest(WAIT, { key: 'k' })))).toBe('not_ready')
    expect(state.runs).toBe(0)
    expect([gateway.isReady(), gateway.unavailableReason()]).toEqual([false, 'store_unavailable'])
    failing.clear()
    await expect.poll(() => gateway.isReady(), { timeout: 5_000 }).toBe(true)
  })

  it('rule 11: an outcome that cannot be written is unknown to callers, kept, and returned once it is stored', async () => {
    const failing = new Set<StoreMethod>(['finish', 'probe'])
    const runs = { count: 0 }
    const tool = sampleTool('Slow.Write@1.0.0', () => {
      runs.count += 1
      return 'written'
    })
    const gateway = openTestGateway([tool], { store: faultyStore(openMemoryStore(), failing) })
    const request = callRequest('Slow.Write', { key: 'k' })
    expect(gist(await gateway.call(ALICE, request))).toBe('outcome_unknown')
    expect(gateway.isReady()).toBe(false)
    expect(gist(await gateway.call(ALICE, request))).toBe('outcome_unknown')
    failing.clear()
    await expect
      .poll(async () => gist(await gateway.call(ALICE, request)), { timeout: 5_000 })
      .toBe('ok "written"')
    expect(runs.count).toBe(1)
  })
})

it('rules 9 and 18: a call claimed by a process that may not start it is released, and the same key runs', async () => {
  const store = openMemoryStore()
  let mayStart = false
  const leased: Store = Object.create(store, { mayStart: { value: () => mayStart } })
  const tool = sampleTool('Note.Write@1.0.0', () => 'noted', { policy: { safetyTier: 'write' } })
  const gateway = openTestGateway([tool], { store: leased })
  const call = () => gateway.call(ALICE, callRequest('Note.Write', { key: 'k' }))
  const error = errorOf(await call())
  expect(error).toMatchObject({ code: 'cancelled', canRetry: true })
  expect(error.message).toContain('Nothing was run. Call again with exactly the same arguments')
  expect(await gateway.readCall(ALICE, 'k')).toMatchObject({ state: 'released' })
  mayStart = true
  expect(gist(await call())).toBe('ok "noted"')
})
