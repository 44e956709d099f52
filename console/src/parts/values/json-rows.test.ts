import { describe, expect, it } from 'vitest'
import { isLongJson, parentsOf, rowsOf, searchJson } from './json-rows.ts'

const VALUE = { name: 'Ann', tags: ['a', 'b'], 'a/b': { deep: 7 }, none: null }

function search(value: unknown, text: string): readonly string[] {
  const steps = searchJson(value, text)
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}

describe('JSON as rows', () => {
  it('has a row for each member of an open value', () => {
    const names = (open: readonly string[]) =>
      rowsOf(VALUE, new Set(open)).map(({ name, depth }) => `${depth} ${name}`)
    expect(names([])).toEqual(['0 '])
    expect(names([''])).toEqual(['0 ', '1 name', '1 tags', '1 a/b', '1 none'])
    expect(names(['', '/tags', '/a~1b'])).toEqual([
      '0 ',
      '1 name',
      '1 tags',
      '2 0',
      '2 1',
      '1 a/b',
      '2 deep',
      '1 none',
    ])
  })
  it('divides long lists into ranges, which open one by one', () => {
    const long = Array.from({ length: 450 }, (_, n) => n)
    expect(rowsOf(long, new Set([''])).map(({ name }) => name)).toEqual([
      '',
      '0 – 199',
      '200 – 399',
      '400 – 449',
    ])
    const rows = rowsOf(long, new Set(['', '/400…449']))
    expect(rows).toHaveLength(54)
    expect(rows.at(-1)).toMatchObject({ path: '/449', value: 449, depth: 2 })
  })
  it('is searched by names and values, in order, and what is found can be opened', () => {
    expect(search(VALUE, 'A')).toEqual(['/name', '/tags', '/tags/0', '/a~1b'])
    expect(search(VALUE, '7')).toEqual(['/a~1b/deep'])
    expect(search(VALUE, 'nothing')).toEqual([])
    const nested = { list: Array.from({ length: 900 }, (_, n) => ({ n })) }
    expect(parentsOf(nested, '/list/555/n')).toEqual(['', '/list', '/list/400…599', '/list/555'])
    const open = new Set(parentsOf(nested, '/list/555/n'))
    expect(rowsOf(nested, open).find(({ path }) => path === '/list/555/n')?.value).toBe(555)
  })
  it('is long if its text is', () => {
    expect(isLongJson(VALUE, 1_000)).toBe(false)
    expect(isLongJson({ text: 'x'.repeat(1_000) }, 1_000)).toBe(true)
    expect(
      isLongJson(
        Array.from({ length: 2_000 }, () => 1),
        1_000,
      ),
    ).toBe(true)
    expect(isLongJson([[[[['deep']]]]], 1_000)).toBe(false)
  })
})
