import { expect, it } from 'vitest'
import { countOffered, countsText } from './offer-counts.ts'

it('MCP-110: counts tools, prompts, templates and skills separately, and not the access to resources', () => {
  const kinds = ['prompt', 'template', 'template', 'resources', 'completions', 'skill']
  const offered = [{}, ...kinds.map((kind) => ({ entry: { kind } }))]
  expect(countsText(countOffered(offered))).toBe('1 tool, 1 prompt, 2 templates, 1 skill')
  expect(countsText(countOffered([{}, {}]))).toBe('2 tools')
  expect(countsText(countOffered([]))).toBe('0 tools')
})
