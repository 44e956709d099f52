import { expect, it } from 'vitest'
import { parseText } from './load.ts'

it('YAML is converted to JSON values', async () => {
  const text = 'a: &a { b: 1 }\nc: { <<: *a, 200: 2026-01-01 }\nd: [yes, null, ~, 0x10]\n'
  expect(await parseText(text, 'It')).toEqual({
    a: { b: 1 },
    c: { b: 1, 200: '2026-01-01' },
    d: ['yes', null, null, 16],
  })
})

it.each(['a: [', 'a: *unknown', 'a: &a [*a]', 'a: &a { b: *a }', 'b: "', '\ta: b'])(
  'text that is neither JSON nor YAML is refused: %j',
  async (text) => {
    await expect(parseText(text, 'It')).rejects.toThrow(
      expect.objectContaining({ code: 'upstream_failed', message: 'It is neither JSON nor YAML.' }),
    )
  },
)

it('YAML with a byte order mark or braces is recognised', async () => {
  expect(await parseText('\uFEFF {"a":1}', 'It')).toEqual({ a: 1 })
  expect(await parseText('{ a: 1 }', 'It')).toEqual({ a: 1 })
})

it('refuses JSON and YAML with more values than the reading thread has memory for', async () => {
  const many = '{},'.repeat(5_000_000)
  await expect(parseText(`{"x":[${many}1]}`, 'It')).rejects.toThrow('It is too large')
  const list = `[${'{},'.repeat(500)}{}]`
  const yaml = `a: &a ${list}\nx:\n${'  - *a\n'.repeat(450)}`
  await expect(parseText(yaml, 'It', { values: 100_000 })).rejects.toThrow('It is too large')
  const room = { values: 10 }
  expect(await parseText('[1, 2, 3]', 'It', room)).toEqual([1, 2, 3])
  await expect(parseText('[1, 2, 3, 4, 5, 6, 7, 8]', 'It', room)).rejects.toThrow('It is too large')
})
