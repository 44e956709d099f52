import { expect, it } from 'vitest'
import { parseText } from './load.ts'

it('YAML becomes what JSON can say', async () => {
  const text = 'a: &a { b: 1 }\nc: { <<: *a, 200: 2026-01-01 }\nd: [yes, null, ~, 0x10]\n'
  expect(await parseText(text, 'It')).toEqual({
    a: { b: 1 },
    c: { b: 1, 200: '2026-01-01' },
    d: ['yes', null, null, 16],
  })
})

it.each(['a: [', 'a: *nobody', 'a: &a [*a]', 'a: &a { b: *a }', 'b: "', '\ta: b'])(
  'what is neither is refused: %j',
  async (text) => {
    await expect(parseText(text, 'It')).rejects.toThrow(
      expect.objectContaining({ code: 'upstream_failed', message: 'It is neither JSON nor YAML.' }),
    )
  },
)

it('a byte order mark and braces do not confuse', async () => {
  expect(await parseText('\uFEFF {"a":1}', 'It')).toEqual({ a: 1 })
  expect(await parseText('{ a: 1 }', 'It')).toEqual({ a: 1 })
})
