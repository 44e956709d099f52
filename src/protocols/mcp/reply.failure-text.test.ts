import { expect, it } from 'vitest'
import { callErrorOf } from '#core/calls/execute'
import { validateInput } from '#core/calls/resolve'
import { isToolError } from '#core/errors'
import { prepareTool } from '#core/tools/prepare-tool'
import { describeFailure } from './reply.ts'

async function failureOf(names: readonly string[]): Promise<string> {
  const properties = Object.fromEntries(names.map((name) => [name, { type: 'string', description: 'D.' }]))
  const input = { type: 'object', properties, required: names }
  const prepared = prepareTool({ id: 'A.B@1.0.0', description: 'd', input, output: null, run: () => null })
  if (!prepared.ok) throw new Error('no tool')
  try {
    await validateInput(prepared.tool, {})
  } catch (error) {
    if (isToolError(error)) return describeFailure(callErrorOf(error), 'c')
  }
  return ''
}

it('MCP-62: what is wrong with an input is said once', async () => {
  expect(await failureOf(['scale'])).toBe('The input of A.B@1.0.0 is invalid: scale: Is required.')
  const many = await failureOf(['a', 'b', 'c', 'd', 'e', 'f', 'g'])
  for (const name of 'abcdefg') expect(many.split(`${name}: Is required`)).toHaveLength(2)
})
