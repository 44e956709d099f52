import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Logger } from '#core/ports/logger'
import { MemoryStore } from '#store/memory'
import { faultyStore, type StoreMethod } from '#testing/faulty-store'
import { sampleTool } from '#testing/sample-tool'
import { ALICE, callRequest, gist, openTestDesk } from '#testing/test-desk'
import type { CallDesk } from './call-desk.ts'

const MINUTE_MS = 60_000

interface Line {
  readonly atMs: number
  readonly fields: object
  readonly message: string | undefined
}

function startOutage() {
  const failing = new Set<StoreMethod>()
  const errors: Line[] = []
  const infos: Line[] = []
  const probes: number[] = []
  const keep =
    (lines: Line[]): Logger['info'] =>
    (fields: object | string, message?: string) => {
      if (typeof fields === 'object') lines.push({ atMs: Date.now(), fields, message })
    }
  const log: Logger = { debug() {}, info: keep(infos), warn() {}, error: keep(errors) }
  const store = faultyStore(new MemoryStore(), failing)
  const desk = openTestDesk([sampleTool('Bell.Ring@1.0.0', () => 'ding')], {
    log,
    store: new Proxy(store, {
      get(target, name) {
        if (name === 'probe') probes.push(Date.now())
        return Reflect.get(target, name, target)
      },
    }),
  })
  return { desk, failing, errors, infos, probes }
}

// `setImmediate` stays real: the memory store answers by it.
const FAKED = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date', 'performance'] as const
beforeEach(() => void vi.useFakeTimers({ toFake: [...FAKED] }))
afterEach(() => void vi.useRealTimers())

/** Waiting for the last calls takes timers too. */
async function closed(desk: CallDesk): Promise<void> {
  const drained = desk.drain(0)
  await vi.advanceTimersByTimeAsync(10_000)
  await drained
}

describe('a store that does not take writes', () => {
  it('rule 11: is told once with its stack, then once a minute with a count, and when it works again', async () => {
    const { desk, failing, errors, infos } = startOutage()
    for (const method of ['finish', 'recordLate', 'probe'] as const) failing.add(method)
    await desk.call(ALICE, callRequest('Bell.Ring'))
    errors.length = 0
    await vi.advanceTimersByTimeAsync(10 * MINUTE_MS)
    const said = (text: string) => errors.filter(({ message }) => message?.includes(text))
    for (const text of ['the store does not take writes', 'an outcome cannot be committed']) {
      const [first, ...later] = said(text)
      expect(first?.fields).toMatchObject({ err: expect.any(Error) })
      expect(later.length).toBeGreaterThanOrEqual(8)
      expect(later.length).toBeLessThanOrEqual(10)
      expect(later[0]?.fields).toMatchObject({ failures: expect.any(Number), reason: 'the disk is full' })
      expect(later[0]?.fields).not.toHaveProperty('err')
    }
    failing.clear()
    await vi.advanceTimersByTimeAsync(10_000)
    expect(infos).toContainEqual(
      expect.objectContaining({
        message: 'the store takes writes again',
        fields: { failedProbes: expect.any(Number) },
      }),
    )
    expect(gist(await desk.call(ALICE, callRequest('Bell.Ring')))).toBe('ok "ding"')
    await closed(desk)
  })

  it('rule 11: is probed soon, then every two seconds, and no more once the desk is closed', async () => {
    const { desk, failing, probes } = startOutage()
    for (const method of ['finish', 'probe'] as const) failing.add(method)
    await desk.call(ALICE, callRequest('Bell.Ring'))
    await vi.advanceTimersByTimeAsync(20_000)
    const waits = probes.slice(1).map((atMs, index) => atMs - (probes[index] ?? 0))
    expect(waits.slice(0, 4)).toEqual([500, 1_000, 2_000, 2_000])
    expect(Math.max(...waits)).toBe(2_000)
    await closed(desk)
    const before = probes.length
    await vi.advanceTimersByTimeAsync(20_000)
    expect(probes).toHaveLength(before)
  })
})
