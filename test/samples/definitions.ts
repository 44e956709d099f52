import assert from 'node:assert/strict'
import { type PrepareOptions, prepareTool } from '#kernel/tool/prepare-tool'
import type { Tool } from '#kernel/tool/tool'

/** A definition without a fault, as an author writes it. */
export const ADD = {
  id: 'Calculator.Add@1.0.0',
  description: 'Adds two numbers together.',
  input: {
    type: 'object',
    properties: {
      a: { type: 'number', description: 'The first number.' },
      b: { type: 'number', description: 'The second number.' },
    },
    required: ['a', 'b'],
  },
  output: { type: 'number' },
  run: ({ a, b }: { a: number; b: number }) => a + b,
}

/** The tool, or an error with all findings about its definition. */
export function prepared(definition: unknown, options?: PrepareOptions): Tool {
  const result = prepareTool(definition, options)
  assert.ok(
    result.tool !== undefined,
    result.tool !== undefined ? '' : JSON.stringify(result.findings, null, 2),
  )
  return result.tool
}

/** `where: problem` of each finding of the sample with these changes; every finding says what to write instead. */
export function findingsOf(changes: Record<string, unknown>, options?: PrepareOptions): string[] {
  const result = prepareTool({ ...ADD, ...changes }, options)
  if (result.tool !== undefined) return []
  for (const { fix } of result.findings) assert.notEqual(fix, '')
  return result.findings.map(({ where, problem }) => `${where}: ${problem}`)
}
