import { describe, expect, it } from 'vitest'
import type { Reply } from './call-history.ts'
import { effectKeys } from './flow-steps.ts'
import { type FlowHistory, judgeFlows } from './judge-flows.ts'

const KEY = 'flow-0'
const EFFECTS = effectKeys(KEY).map((key, index) => ({ key, nonce: `n${index}` }))

function reply(changes: Partial<Reply> = {}): Reply {
  const value = 'n0 n1 n2 n3'
  return {
    protocol: 'otc',
    status: 200,
    asksForRetry: false,
    errorCode: undefined,
    runId: undefined,
    success: true,
    canRetry: false,
    body: value,
    value,
    ...changes,
  }
}

function breaches(changes: Partial<FlowHistory> = {}): readonly string[] {
  const history = { flows: new Map([[KEY, reply()]]), finished: new Map([[KEY, reply()]]) }
  return judgeFlows({ ...history, settled: [], effects: EFFECTS, ...changes }).findings.map(
    ({ breach }) => breach,
  )
}

describe('the judge of workflows', () => {
  it('finds nothing in a correct workflow', () => {
    expect(breaches()).toEqual([])
  })

  it('finds repeated and missing steps, wrong, changed and missing outcomes', () => {
    const [first = { key: '', nonce: '' }, ...rest] = EFFECTS
    expect(breaches({ effects: [...EFFECTS, { ...first, nonce: 'again' }] })).toContain(
      'step not exactly once',
    )
    expect(breaches({ effects: rest })).toContain('step not exactly once')
    expect(breaches({ finished: new Map([[KEY, reply({ value: 'other' })]]) })).toEqual([
      'workflow ends differently',
    ])
    expect(breaches({ flows: new Map([[KEY, reply({ body: 'other' })]]) })).toEqual(['outcome changed'])
    expect(breaches({ finished: new Map() })).toEqual(['workflow not finished'])
    expect(breaches({ finished: new Map([[KEY, reply({ success: false })]]) })).toEqual([
      'workflow not finished',
    ])
  })
})
