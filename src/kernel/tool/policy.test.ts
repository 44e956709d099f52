import { describe, expect, it } from 'vitest'
import { findingsOf } from '../../../test/samples/definitions.ts'

describe('policy', () => {
  it('rule 7: a tool with effects is not deterministic', () => {
    expect(findingsOf({ policy: { replay: 'deterministic' } })).toEqual([
      expect.stringMatching(/^policy\/replay: .*write/),
    ])
    expect(findingsOf({ policy: { replay: 'deterministic', safetyTier: 'read' } })).toEqual([])
  })

  it('OWP-31: accepts `exec` for code, which is then catalogued as a host extension', () => {
    const exec = { safetyTier: 'exec' }
    expect(findingsOf({ policy: exec })).toEqual([])
    expect(findingsOf({ policy: exec, catalogId: 'x-host-acme-shell' })).toEqual([])
    expect(findingsOf({ policy: exec, catalogId: 'openwop:Shell.Run' })).toEqual([
      expect.stringMatching(/^catalogId: /),
    ])
    expect(findingsOf({ policy: { safetyTier: 'write' }, catalogId: 'x-host-acme-shell' })).toEqual([
      expect.stringMatching(/^catalogId: /),
    ])
  })

  it('refuses unknown choices, and invalid numbers and scopes', () => {
    expect(
      findingsOf({ policy: { safetyTier: 'reed', egress: 'all', approval: true, costHint: 'toString' } }),
    ).toEqual([
      'policy/safetyTier: Is "reed". Did you mean "read"?',
      'policy/egress: Is "all".',
      'policy/approval: Is true.',
      'policy/costHint: Is "toString".',
    ])
    for (const timeoutMs of [0, -1, 1.5, Number.NaN, '5', 2 ** 31]) {
      expect(findingsOf({ policy: { timeoutMs } })).toEqual([expect.stringMatching(/^policy\/timeoutMs: /)])
    }
    expect(findingsOf({ policy: { rerunWindowMs: -1 } })).toEqual(['policy/rerunWindowMs: Is -1.'])
    for (const scopes of ['a', [''], [1], ['mail:read mail:send'], ['a\tb']]) {
      expect(findingsOf({ policy: { scopes } })).toEqual([expect.stringMatching(/^policy\/scopes: /)])
    }
    for (const cost of [-1, Number.NaN, Number.POSITIVE_INFINITY, '1', 1e10]) {
      expect(findingsOf({ policy: { cost } })).toEqual([expect.stringMatching(/^policy\/cost: /)])
    }
    expect(findingsOf({ policy: { cost: 0.5 } })).toEqual([])
    expect(findingsOf({ policy: 'read' })).toEqual(['policy: Is not an object.'])
  })
})
