import { describe, expect, it } from 'vitest'
import { withoutRepetition } from './probe.ts'

describe('the output of a program', () => {
  it('is shown once if the program was started twice and printed the same', () => {
    expect(withoutRepetition(['a', 'b', 'a', 'b'])).toEqual(['a', 'b'])
    expect(withoutRepetition(['a', 'b', 'a', 'c'])).toEqual(['a', 'b', 'a', 'c'])
    expect(withoutRepetition(['a', 'a', 'a'])).toEqual(['a', 'a', 'a'])
    expect(withoutRepetition([])).toEqual([])
  })
})
