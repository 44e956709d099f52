import { describe, expect, it } from 'vitest'
import { MAX_ROW_CHARACTERS, rowAt, rowStarts } from './long-code.tsx'

function rowsOf(text: string): readonly string[] {
  const starts = rowStarts(text)
  return starts.map((_, index) => rowAt(text, starts, index))
}

describe('the rows of a long text', () => {
  it.each([
    ['', ['']],
    ['a', ['a']],
    ['a\n', ['a', '']],
    ['a\n\nb', ['a', '', 'b']],
    ['x'.repeat(MAX_ROW_CHARACTERS), ['x'.repeat(MAX_ROW_CHARACTERS)]],
    [`${'x'.repeat(MAX_ROW_CHARACTERS)}y\nz`, ['x'.repeat(MAX_ROW_CHARACTERS), 'y', 'z']],
    [`${'x'.repeat(MAX_ROW_CHARACTERS - 1)}😀y`, [`${'x'.repeat(MAX_ROW_CHARACTERS - 1)}😀`, 'y']],
  ])('contain all of %j in order', (text, rows) => {
    expect(rowsOf(text)).toEqual(rows)
  })

  it('are found in one pass, even in one line of 6 MB', () => {
    expect(rowsOf('x'.repeat(6_000_000))).toHaveLength(6_000_000 / MAX_ROW_CHARACTERS)
  })
})
