import { describe, expect, it } from 'vitest'
import { cpuMsSince } from '#testing/cpu-time'
import { parseText } from './parse-text.ts'

const SIGNAL = new AbortController().signal
const LONG = `# ${'x'.repeat(60_000)}\n`

describe.each([
  ['here', ''],
  ['in another thread', LONG],
])('YAML read %s', (_where, before) => {
  it('gives the same value', async () => {
    const text = `${before}a: &a { b: 1 }\nc: { <<: *a, 200: 2026-01-01 }\nd: [yes, null, ~, 0x10]\n`
    expect(await parseText(text, 'It', SIGNAL)).toEqual({
      a: { b: 1 },
      c: { b: 1, 200: '2026-01-01' },
      d: ['yes', null, null, 16],
    })
  })

  it('fails the same way', async () => {
    for (const text of ['a: [', 'a: *nobody', 'a: &a [*a]', 'a: &a { b: *a }', 'b: "', '\ta: b']) {
      await expect(parseText(before + text, 'It', SIGNAL)).rejects.toMatchObject({
        code: 'upstream_failed',
        message: 'It is neither JSON nor YAML.',
      })
    }
  })
})

it('a byte order mark and braces do not confuse', async () => {
  expect(await parseText('\uFEFF {"a":1}', 'It', SIGNAL)).toEqual({ a: 1 })
  expect(await parseText('{ a: 1 }', 'It', SIGNAL)).toEqual({ a: 1 })
})

it('long YAML does not keep the server from its calls, and ends with the signal', async () => {
  const lines = Array.from({ length: 200_000 }, (_, at) => `key${at}: { a: [1, 2, 3] }`)
  const abort = new AbortController()
  const parsing = parseText(lines.join('\n'), 'It', abort.signal)
  const startedMs = process.cpuUsage()
  await new Promise((resolve) => setImmediate(resolve))
  expect(cpuMsSince(startedMs)).toBeLessThan(2_000)
  abort.abort(new Error('enough'))
  await expect(parsing).rejects.toThrow('enough')
})
