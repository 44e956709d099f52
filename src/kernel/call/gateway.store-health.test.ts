import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ToolError } from '#kernel/base/errors'
import type { Store } from '#store/collet-store'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import {
  ALICE,
  callRequest,
  faultyStore,
  gist,
  openTestGateway,
  type StoreMethod,
} from '#testing/test-gateway'
import { sampleTool } from '../../../test/contracts/samples.ts'

const FLAKY = 'Flaky.Write@1.0.0'

/** A store whose `finish` is slow, like a disk that recovers. */
function slowToFinish(store: Store, ms: number): Store {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...parameters: unknown[]): unknown => {
        const result: unknown = Reflect.apply(value, target, parameters)
        if (name !== 'finish') return result
        return new Promise((resolve) => setTimeout(resolve, ms)).then(() => result)
      }
    },
  })
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise(setImmediate)
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
})
afterEach(() => {
  vi.useRealTimers()
})

describe('an outcome that the store refused', () => {
  it('rule 11: is written once the store works; a write that ends late does not remove the next run', async () => {
    const failing = new Set<StoreMethod>(['finish', 'probe'])
    const gate = Promise.withResolvers<string>()
    const runs: string[] = []
    const tool = sampleTool(FLAKY, () => {
      runs.push('began')
      if (runs.length === 1) throw new ToolError('Not now.', { canRetry: true })
      return gate.promise
    })
    const store = faultyStore(slowToFinish(openMemoryStore(), 1_000), failing)
    const gateway = openTestGateway([tool], { store })
    const request = callRequest(FLAKY, { key: 'k' })
    expect(gist(await gateway.call(ALICE, request))).toBe('outcome_unknown')
    await vi.advanceTimersByTimeAsync(200)
    failing.clear()
    // The probe at 250 ms writes the kept outcome, which takes a second.
    await vi.advanceTimersByTimeAsync(1_075)
    const again = gateway.call(ALICE, request)
    await turns()
    expect(runs).toHaveLength(2)
    await vi.advanceTimersByTimeAsync(50)
    const third = gateway.call(ALICE, request)
    await turns()
    expect(runs).toHaveLength(2)
    gate.resolve('written')
    await vi.advanceTimersByTimeAsync(2_000)
    expect([gist(await again), gist(await third)]).toEqual(['ok "written"', 'ok "written"'])
  })
})
