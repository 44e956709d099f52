import { describe, expect, it } from 'vitest'
import { didYouMean, nearestName } from './nearest-name.ts'

const KNOWN = ['safetyTier', 'replay', 'timeoutMs', 'scopes']

describe('nearestName', () => {
  it('finds slips of the pen, of case and of word separators', () => {
    expect(nearestName('safteyTier', KNOWN)).toBe('safetyTier')
    expect(nearestName('timeout_ms', KNOWN)).toBe('timeoutMs')
    expect(nearestName('Scope', KNOWN)).toBe('scopes')
    expect(nearestName('nmae', ['id', 'name'])).toBe('name')
  })

  it('stays silent when nothing is close, and about very long names', () => {
    expect(nearestName('colour', KNOWN)).toBeUndefined()
    expect(nearestName('z', ['a', 'b'])).toBeUndefined()
    expect(nearestName('', KNOWN)).toBeUndefined()
    expect(nearestName('x'.repeat(100_000), KNOWN)).toBeUndefined()
    expect(didYouMean('colour', KNOWN)).toBe('')
    expect(didYouMean('replya', KNOWN)).toBe(' Did you mean "replay"?')
  })
})
