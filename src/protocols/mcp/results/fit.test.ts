import { expect, it } from 'vitest'
import { byteLength } from '#results/shape'
import { fitFailure, fitResult } from './fit.ts'

const options = {
  modelBytes: 2_000,
  revision: '2025-11-25',
  tool: undefined,
  readToolName: () => 'read_result',
} as const
/** Each character takes two bytes. */
const LONG = 'é'.repeat(3_000)
const contentJson = '[{"type":"text","text":"See the data."}]'

it('names the size of a long result in bytes', () => {
  const valueJson = JSON.stringify(LONG)
  const fitted = fitResult({ ok: true, valueJson, durationMs: 1 }, 'c', options)
  expect(fitted?.members).toContain(`too long to show: ${byteLength(valueJson)} bytes`)
})

it('names the size of structured content that is too long, not the size of the blocks beside it', () => {
  const valueJson = JSON.stringify({ text: LONG })
  const text = `The structured content is too long: ${byteLength(valueJson)} bytes.`
  const result = fitResult({ ok: true, valueJson, shown: { contentJson }, durationMs: 1 }, 'c', options)
  expect(result?.members).toContain(text)
  const shown = { contentJson, structuredJson: valueJson }
  const failure = fitFailure({ code: 'tool_failed', message: 'No.', canRetry: false, shown }, 'c', options)
  expect(failure?.members).toContain(text)
})
