import { describe, expect, it } from 'vitest'
import { type ConversationCall, waterfallOf } from './waterfall.ts'

const at = (second: number): string => new Date(second * 1_000).toISOString()

function call(
  record: string,
  from: number,
  to: number | null,
  more: Partial<ConversationCall> = {},
): ConversationCall {
  return {
    ...{
      record,
      tenant: 'acme',
      principal: 'key:ann',
      tool: 'A.B@1.0.0',
      safety_tier: 'read',
      state: 'succeeded',
    },
    ...{
      attempt: 1,
      parent: null,
      root: null,
      created_at: at(from),
      finished_at: to === null ? null : at(to),
    },
    ...{ took_ms: null, ran_ms: null, error_code: null, error_message: null, call_id: record, run_id: 'r' },
    ...{ trace_id: '', protocol: 'mcp', user_id: null, session_id: null, by: null, result_expired: false },
    ...{ has_late_result: false, cost: 1, waits: [], ...more },
  }
}

describe('the waterfall of a conversation', () => {
  it('puts the steps of a workflow below it, in order', () => {
    const rows = waterfallOf(
      [
        call('w', 0, 9),
        call('a', 1, 2),
        call('s1', 2, 3, { parent: 'w' }),
        call('s2', 4, 8, { parent: 'w' }),
      ],
      10_000,
    )
    expect(rows.map(({ call: { record }, depth }) => [record, depth])).toEqual([
      ['w', 0],
      ['s1', 1],
      ['s2', 1],
      ['a', 0],
    ])
  })
  it('shows waiting apart from running, and a call that still waits until now', () => {
    const [done, open] = waterfallOf(
      [
        call('p', 0, 10, { ran_ms: 1_000, waits: [{ approval: 'x', from: at(0), until: at(8) }] }),
        call('q', 5, null, { state: 'parked', waits: [{ approval: 'y', from: at(5), until: null }] }),
      ],
      20_000,
    )
    expect(done).toMatchObject({
      bar: { from: 0, to: 0.5 },
      waits: [{ from: 0, to: 0.4 }],
      run: { from: 0.45, to: 0.5 },
    })
    expect(done?.waitedMs).toBe(8_000)
    expect(open).toMatchObject({ bar: { from: 0.25, to: 1 }, waits: [{ from: 0.25, to: 1 }], run: undefined })
  })
  it('draws a step whose workflow is not known as a call', () => {
    expect(waterfallOf([call('s', 0, 1, { parent: 'gone' })], 2_000)[0]?.depth).toBe(0)
    expect(waterfallOf([], 0)).toEqual([])
  })
})
