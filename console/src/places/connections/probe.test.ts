import { describe, expect, it } from 'vitest'
import { onceOf } from './probe.ts'

describe('what a program wrote', () => {
  it('is shown once when it was started twice and said the same', () => {
    expect(onceOf(['a', 'b', 'a', 'b'])).toEqual(['a', 'b'])
    expect(onceOf(['a', 'b', 'a', 'c'])).toEqual(['a', 'b', 'a', 'c'])
    expect(onceOf(['a', 'a', 'a'])).toEqual(['a', 'a', 'a'])
    expect(onceOf([])).toEqual([])
  })
})
