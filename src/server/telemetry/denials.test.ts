import { afterEach, describe, expect, it, vi } from 'vitest'
import { StoreError } from '#kernel/base/errors'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { FakeClock } from '#testing/test-gateway'
import { allCommitted } from '../../../test/all-committed.ts'
import { createDenialLog } from './denials.ts'

afterEach(() => vi.useRealTimers())

const who = (id: string) => ({ id: `key:${id}`, tenant: 'acme', scopes: [] })
const about = (resource: string) => ({ action: 'tool.call', resource, reason: 'scope' }) as const

function open() {
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
  const store = openMemoryStore()
  const log = createDenialLog(store, { clock: new FakeClock(), log: SILENT_LOGGER })
  const written = async () => {
    await allCommitted(store)
    const denials = await store.audit.readDenials({ after: 0, limit: 10_000 })
    return denials.map(({ resource, count }) => `${resource} ${count}`)
  }
  return { store, log, written }
}

describe('createDenialLog', () => {
  it('OWP-62: writes the first refusal at once and its repetitions as one line after a minute', async () => {
    const { log, written } = open()
    for (let time = 0; time < 1_000; time += 1) log.note(who('ann'), about('openwop:A'))
    await vi.advanceTimersByTimeAsync(1)
    expect(await written()).toEqual(['openwop:A 1'])
    await vi.advanceTimersByTimeAsync(60_000)
    expect(await written()).toEqual(['openwop:A 1', 'openwop:A 999'])
    log.note(who('ann'), about('openwop:A'))
    await vi.advanceTimersByTimeAsync(1)
    expect(await written()).toHaveLength(3)
    await log.close()
    expect(await written()).toHaveLength(3)
  })

  it('OWP-22: commits as often for hidden tools as for missing ones', async () => {
    const commitsFor = async (facts: () => ReturnType<typeof about> | undefined) => {
      const { log, store } = open()
      const start = Date.now()
      const times: number[] = []
      const record = store.audit.recordDenials.bind(store.audit)
      vi.spyOn(store.audit, 'recordDenials').mockImplementation((denials) => {
        times.push(Date.now() - start)
        return record(denials)
      })
      for (let round = 0; round < 5; round += 1) {
        log.note(who('ann'), facts)
        await vi.advanceTimersByTimeAsync(20_000)
      }
      return times
    }
    const hidden = await commitsFor(() => about('openwop:A'))
    expect(hidden).toEqual([1_000, 21_000, 41_000, 60_000, 61_000, 81_000])
    expect(await commitsFor(() => undefined)).toEqual(hidden)
  })

  it('bounds a flood of different refusals and still writes those of other principals', async () => {
    const { log, written } = open()
    for (let index = 0; index < 5_000; index += 1) log.note(who('ann'), about(`openwop:T${index}`))
    log.note(who('bob'), about('openwop:B'))
    await vi.advanceTimersByTimeAsync(60_001)
    expect(await written()).toHaveLength(20 + 1 + 1 + 1)
    expect(await written()).toContain('openwop:B 1')
    expect(await written()).toContain('* 4979')
  })

  it('bounds a flood of principals', async () => {
    const { log, written } = open()
    for (let index = 0; index < 5_000; index += 1) log.note(who(`p${index}`), about('openwop:A'))
    await vi.advanceTimersByTimeAsync(60_001)
    expect(await written()).toHaveLength(200)
  })

  it('writes pending counts when it closes', async () => {
    const { log, written } = open()
    for (let time = 0; time < 3; time += 1) log.note(who('ann'), about('openwop:A'))
    await log.close()
    expect(await written()).toEqual(['openwop:A 1', 'openwop:A 2'])
  })

  it('lets requests continue if the store cannot write', async () => {
    const { store, log } = open()
    vi.spyOn(store.audit, 'recordDenials').mockImplementation(() => {
      throw new StoreError('full', 'the disk is full')
    })
    log.note(who('ann'), about('openwop:A'))
    await expect(log.close()).resolves.toBeUndefined()
  })
})
