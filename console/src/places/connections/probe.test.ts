import { describe, expect, it } from 'vitest'
import { withoutRepetition } from './probe.ts'

describe('what a program wrote', () => {
  it('is shown once when it was started twice and said the same', () => {
    expect(withoutRepetition(['a', 'b', 'a', 'b'])).toEqual(['a', 'b'])
    expect(withoutRepetition(['a', 'b', 'a', 'c'])).toEqual(['a', 'b', 'a', 'c'])
    expect(withoutRepetition(['a', 'a', 'a'])).toEqual(['a', 'a', 'a'])
    expect(withoutRepetition([])).toEqual([])
  })
})
