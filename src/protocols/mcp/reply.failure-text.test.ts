import { expect, it } from 'vitest'
import { callErrorOf } from '#core/calls/execute'
import { validateInput } from '#core/calls/resolve'
import { isToolError } from '#core/errors'
import { prepareTool } from '#core/tools/prepare-tool'
import { ALICE } from '#testing/test-gateway'
import { describeFailure, encodeFailure, ResultEnvelopes } from './reply.ts'

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

it.each([true, false])('rule 9: whether the same call may be tried again is said: %s', (canRetry) => {
  const options = { name: 'collet', serverVersion: '1' }
  const target = {
    ...({
      id: 1,
      name: 'A_B',
      revision: '2025-11-25',
      principal: ALICE,
      tool: undefined,
      hasHttp: true,
    } as const),
    metadataUrl: undefined,
    envelope: new ResultEnvelopes(options).of('2025-11-25'),
  }
  const error = { code: 'cancelled', message: 'Nothing was run.', canRetry } as const
  const { json } = encodeFailure(error, { callId: 'c', headers: {}, target })
  const said = canRetry ? { 'collet/canRetry': true } : {}
  const meta = { 'collet/callId': 'c', 'collet/errorCode': 'cancelled', ...said }
  expect(JSON.parse(json ?? '').result._meta).toEqual(meta)
})
