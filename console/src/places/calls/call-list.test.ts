import { describe, expect, it } from 'vitest'
import type { CallPage, CallRow } from './api.ts'
import { CallList } from './call-list.ts'

function row(
  record: string,
  changes: Partial<CallRow> = {},
): CallRow & { readonly events: readonly string[] } {
  return {
    ...{ record, tenant: 'acme', principal: 'key:ann', tool: 'Mail.Send@1.0.0', safety_tier: 'write' },
    ...{ state: 'succeeded', attempt: 1, parent: null, took_ms: 5, ran_ms: 5, error_code: null, events: [] },
    created_at: `2026-01-01T00:00:00.${record.padStart(3, '0')}Z`,
    finished_at: '2026-01-01T00:00:01.000Z',
    ...changes,
  }
}

const shown = (list: CallList): readonly string[] => list.view.get().rows.map(({ record }) => record)
const take = (list: CallList, ...calls: readonly ReturnType<typeof row>[]) =>
  list.take({ calls: calls.map((call) => ({ ...call, by: call.by ?? undefined })), left: [] })

describe('the list of calls', () => {
  it('shows new calls on top and older calls at the end', async () => {
    const list = new CallList()
    list.fill({ calls: [row('3'), row('2')], next: 2 })
    take(list, row('4'), row('5'))
    await list.loadOlder(async () => ({ calls: [row('2'), row('1')], next: null }))
    expect(shown(list)).toEqual(['5', '4', '3', '2', '1'])
    expect(list.view.get().older).toBe(null)
  })

  it('drops an older page after the filter changed, the list was refetched, or rows were dropped', async () => {
    const list = new CallList()
    const late = async (change: () => void): Promise<boolean> => {
      list.fill({ calls: [row('3')], next: 3 })
      const { promise, resolve } = Promise.withResolvers<CallPage>()
      const signals: AbortSignal[] = []
      const asked = list.loadOlder((_, signal) => {
        signals.push(signal)
        return promise
      })
      change()
      resolve({ calls: [row('1')], next: null })
      await asked
      expect(shown(list)).not.toContain('1')
      return signals[0]?.aborted === true
    }
    expect(await late(() => list.clear())).toBe(true)
    expect(await late(() => list.fill({ calls: [row('9')], next: 9 }))).toBe(true)
    expect(list.view.get().older).toEqual({ before: 9 })
    const many = Array.from({ length: 2_000 }, (_, n) => row(`many ${n}`, { created_at: at(n) }))
    expect(await late(() => take(list, ...many))).toBe(true)
  })

  it('requests one older page at a time, and reports a failure', async () => {
    const list = new CallList()
    list.fill({ calls: [row('3')], next: 3 })
    let asked = 0
    const fail = async (): Promise<never> => {
      asked += 1
      throw new Error('The store is unavailable.')
    }
    await Promise.all([list.loadOlder(fail), list.loadOlder(fail)])
    expect(asked).toBe(1)
    expect(list.view.get()).toMatchObject({
      olderError: new Error('The store is unavailable.'),
      older: { before: 3 },
    })
    await list.loadOlder(async () => ({ calls: [row('1')], next: null }))
    expect(list.view.get()).toMatchObject({ olderError: null, older: null })
    expect(shown(list)).toEqual(['3', '1'])
  })

  it('holds rows in place, updates them, and removes calls that no longer match', () => {
    const list = new CallList()
    list.fill({ calls: [row('2', { state: 'running', finished_at: null }), row('1')], next: null })
    list.hold(true)
    take(list, row('3'), row('2', { state: 'failed', error_code: 'tool_failed' }))
    expect(shown(list)).toEqual(['2', '1'])
    expect(list.view.get()).toMatchObject({ waiting: 1, rows: [{ state: 'failed' }, {}] })
    list.take({ calls: [], left: ['1'] })
    expect(shown(list)).toEqual(['2'])
    list.hold(false)
    expect(shown(list)).toEqual(['3', '2'])
  })

  it('ignores older states of a call', () => {
    const list = new CallList()
    take(list, row('1'))
    take(list, row('1', { state: 'running', finished_at: null }))
    expect(list.view.get().rows).toMatchObject([{ state: 'succeeded' }])
    // The next attempt is newer than the end of the previous one.
    take(list, row('1', { state: 'running', finished_at: null, attempt: 2 }))
    expect(list.view.get().rows).toMatchObject([{ state: 'running' }])
    // Events that arrived during the request are kept.
    take(list, row('1', { attempt: 2 }))
    list.fill({ calls: [row('1', { state: 'running', finished_at: null, attempt: 2 })], next: null })
    expect(list.view.get().rows).toMatchObject([{ state: 'succeeded' }])
  })

  it('keeps events that arrived before the list', () => {
    const list = new CallList()
    take(list, row('9'))
    list.fill({ calls: [row('2')], next: null })
    expect(shown(list)).toEqual(['9', '2'])
  })

  it('keeps events that arrived during the request, and drops rows from before it', () => {
    const list = new CallList()
    const moment = at(5)
    take(list, row('gone', { created_at: moment }))
    list.expectFill()
    take(list, row('same', { created_at: moment }), row('early', { created_at: at(1) }))
    list.fill({ calls: [row('listed', { created_at: moment })], next: null })
    expect(shown(list)).toEqual(['same', 'listed', 'early'])
  })

  it('puts steps below their workflow', () => {
    const list = new CallList()
    const calls = [
      row('5'),
      row('4', { parent: '2' }),
      row('3', { parent: '2' }),
      row('2'),
      row('1', { parent: '0' }),
    ]
    list.fill({ calls, next: null })
    expect(shown(list)).toEqual(['5', '2', '3', '4', '1'])
  })

  it('drops rows over the limit, and then finds older calls by time', () => {
    const list = new CallList()
    for (let n = 0; n < 30; n += 1)
      take(
        list,
        ...Array.from({ length: 100 }, (_, i) => row(String(n * 100 + i), { created_at: at(n * 100 + i) })),
      )
    const { rows, older, begun } = list.view.get()
    expect([rows.length, begun, rows[0]?.record, rows.at(-1)?.record]).toEqual([2_000, 3_000, '2999', '1000'])
    expect(older).toEqual({ until: at(1_001) })
  })
})

function at(ms: number): string {
  return new Date(Date.UTC(2026, 0, 1) + ms).toISOString()
}
