import { describe, expect, it } from 'vitest'
import { judgeApprovals, type StoredStep } from './judge-approvals.ts'

const parked = { type: 'call.parked', record: 'r', attempt: 1, approval: 'a' }
const granted = { type: 'approval.granted', record: 'r', attempt: 1, approval: 'a' }
const used = { type: 'approval.used', record: 'r', attempt: 1, approval: 'a' }
const claimed = { type: 'call.claimed', record: 'r', attempt: 1, tool: 'Effect.Approved@1.0.0' }

const breaches = (...steps: StoredStep[]) => judgeApprovals(steps).findings.map(({ breach }) => breach)

describe('judgeApprovals', () => {
  it('finds nothing in a call that was requested, approved, and run once on its grant', () => {
    expect(judgeApprovals([parked, granted, used, claimed])).toEqual({
      ...{ asked: 1, granted: 1, rejected: 0, used: 1, findings: [] },
    })
  })

  it('finds a grant that was used twice', () => {
    expect(breaches(parked, granted, used, claimed, used)).toEqual(['approval used twice'])
    const again = [
      { ...used, attempt: 2 },
      { ...claimed, attempt: 2 },
    ]
    expect(breaches(parked, granted, used, claimed, ...again)).toEqual(['approval used twice'])
    expect(breaches(parked, granted, used, claimed, claimed)).toEqual(['approval used twice'])
  })

  it('finds a run without an approval, or with a rejection', () => {
    expect(breaches(parked, claimed)).toEqual(['run without a grant'])
    expect(breaches(parked, used, claimed)).toEqual(['run without a grant'])
    const rejected = { ...granted, type: 'approval.rejected' }
    expect(breaches(parked, granted, rejected, used, claimed)).toEqual(['run without a grant'])
  })
})
