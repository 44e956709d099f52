import { describe, expect, it } from 'vitest'
import { pageCommandOf } from './decision.tsx'

describe('the command of a decision', () => {
  const approval = { id: 'ap_1', stale: false, hides_something: false }

  it('quotes the reason as one shell word', () => {
    expect(pageCommandOf(approval, false, '')).toBe('collet approvals approve ap_1')
    expect(pageCommandOf(approval, false, ' it costs $(id) `x`, "no"\n')).toBe(
      `collet approvals approve ap_1 --reason 'it costs $(id) \`x\`, "no"'`,
    )
  })

  it('offers only a decision that is still possible', () => {
    expect(pageCommandOf({ ...approval, stale: true }, false, 'old')).toBe(
      'collet approvals reject ap_1 --reason old',
    )
    expect(pageCommandOf({ ...approval, hides_something: true }, false, '')).toBe(
      'collet approvals approve ap_1 --accept-hidden',
    )
    expect(pageCommandOf(approval, true, 'late')).toBe('collet approvals show ap_1')
  })
})
