import { describe, expect, it } from 'vitest'
import { type CallDetails, runTimeText, type StepCall } from './api.ts'
import { stepNameOf, timelineOf, timesOf } from './call-timeline.tsx'

const STEP: StepCall = {
  ...{ record: 's1', call_id: 'order 7/Shop.Look', tenant: 'acme', principal: 'key:ann', attempt: 1 },
  ...{ tool: 'Shop.Look@1.0.0', safety_tier: 'read', state: 'succeeded', parent: 'w', took_ms: 1, ran_ms: 1 },
  ...{ created_at: at(1), finished_at: at(2), error_code: null, timeline: [], by: null, user_id: null },
  ...{ session_id: null, error_message: null, cost: null },
  ...{ run_id: 'r', trace_id: '', protocol: 'otc', result_expired: false, has_late_result: false },
}
const WAITED: StepCall = {
  ...STEP,
  ...{ record: 's2', tool: 'Shop.Pay@1.0.0', created_at: at(3), finished_at: at(50) },
  timeline: [
    { at: at(3), event: 'called', facts: { attempt: 1 } },
    { at: at(3), event: 'interrupt.requested', facts: { approval: 'a', quorum: 1, timeoutMs: 9 } },
    { at: at(40), event: 'interrupt.resolved', facts: { action: 'accept' } },
    { at: at(50), event: 'returned', facts: { durationMs: 4 } },
  ],
}

const WORKFLOW: CallDetails = {
  ...STEP,
  ...{ record: 'w', call_id: 'order 7', tool: 'Shop.Order@1.0.0', parent: null, created_at: at(0) },
  ...{
    definition_hash: 'h',
    root: null,
    session_id: null,
    waits_for: null,
    contents: 'unasked',
    journal: [],
    approval: null,
    steps: [],
  },
}

/** The timeline without the steps. */
function replaysIn(...steps: readonly StepCall[]): readonly (readonly [unknown, number])[] {
  return timelineOf({ ...WORKFLOW, steps }).flatMap(({ title, at: when }) =>
    typeof title === 'string' ? [[title, new Date(when).getTime() - Date.parse(at(0))] as const] : [],
  )
}

it('the time until a person settled a call is not shown as its run time', () => {
  const event = { type: 'call.settled', at: 129_000 }
  const settled = { writer: 'w', group: 2, link: '', at: at(129_000), events: [event] }
  const call = { ...WORKFLOW, ran_ms: null, took_ms: 129_000, journal: [settled] }
  expect(timesOf(call)).toBe('settled after 2 m 9 s, run time unknown')
  expect(timesOf({ ...call, journal: [] })).toBe('2 m 9 s')
})

it('the run time of a call does not include the wait for people', () => {
  expect(runTimeText({ ran_ms: 0 })).toBe('<1 ms')
  expect(runTimeText({ ran_ms: null })).toBe('—')
})

describe('the timeline of a workflow', () => {
  it('shows the steps that were replayed when the workflow continued', () => {
    const after = { ...STEP, record: 's3', created_at: at(51), finished_at: at(52) }
    expect(replaysIn(STEP, WAITED, after)).toEqual([['1 step replayed', 46]])
  })

  it('shows no replays if no step waited, or the waiting step has not run', () => {
    expect(replaysIn(STEP, { ...STEP, record: 's4' })).toEqual([])
    expect(replaysIn(STEP, { ...WAITED, timeline: WAITED.timeline.slice(0, 2), finished_at: null })).toEqual(
      [],
    )
    expect(replaysIn(WAITED)).toEqual([])
  })

  it('shows the workflow’s name of a step, unless it is the name of the tool', () => {
    const named = (id: string) => stepNameOf({ tool: 'Shop.Look@1.0.0', call_id: id }, { call_id: 'order 7' })
    expect(named('order 7/Shop.Look')).toBe(undefined)
    expect(named('order 7/Shop.Look#2')).toBe('#2')
    expect(named('order 7/before/after')).toBe('before/after')
    expect(named('another/before')).toBe(undefined)
  })
})

function at(ms: number): string {
  return new Date(Date.UTC(2026, 0, 1) + ms).toISOString()
}
