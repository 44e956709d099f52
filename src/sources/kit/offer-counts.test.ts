import { expect, it } from 'vitest'
import { countOffered, countsText } from './offer-counts.ts'

it('MCP-110: counts tools, prompts and templates separately, and not the access to resources', () => {
  const kinds = ['prompt', 'template', 'template', 'resources', 'completions']
  const offered = [{}, ...kinds.map((kind) => ({ entry: { kind } }))]
  expect(countsText(countOffered(offered))).toBe('1 tool, 1 prompt, 2 templates')
  expect(countsText(countOffered([{}, {}]))).toBe('2 tools')
  expect(countsText(countOffered([]))).toBe('0 tools')
})
