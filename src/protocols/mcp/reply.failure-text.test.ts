import { expect, it } from 'vitest'
import { approvalRequired } from '#kernel/approval/approvals'
import { isToolError } from '#kernel/base/errors'
import type { CallError } from '#kernel/call/call'
import { callErrorOf } from '#kernel/call/execute'
import { validateInput } from '#kernel/call/resolve'
import { blockedBy } from '#kernel/call/suspend'
import { prepareTool } from '#kernel/tool/prepare-tool'
import type { Tool } from '#kernel/tool/tool'
import { ALICE } from '#testing/test-gateway'
import { describeFailure, encodeFailure, type ReplyTarget, ResultEnvelopes } from './reply.ts'

function toolOf(names: readonly string[]): Tool {
  const properties = Object.fromEntries(names.map((name) => [name, { type: 'string', description: 'D.' }]))
  const input = { type: 'object', properties, required: names }
  const prepared = prepareTool({ id: 'A.B@1.0.0', description: 'd', input, output: null, run: () => null })
  if (prepared.tool === undefined) throw new Error('no tool')
  return prepared.tool
}

async function failureOf(names: readonly string[]): Promise<string> {
  try {
    await validateInput(toolOf(names), {})
  } catch (error) {
    if (isToolError(error)) return describeFailure(callErrorOf(error))
  }
  return ''
}

it('MCP-62: each problem of an input is described once', async () => {
  expect(await failureOf(['scale'])).toBe('The input of A.B@1.0.0 is invalid: scale: Is required.')
  const many = await failureOf(['a', 'b', 'c', 'd', 'e', 'f', 'g'])
  for (const name of 'abcdefg') expect(many.split(`${name}: Is required`)).toHaveLength(2)
})

const target = {
  ...({ id: 1, name: 'A_B', revision: '2025-11-25', principal: ALICE, hasHttp: true } as const),
  noun: 'tool' as const,
  tool: undefined,
  hasCallId: false,
  modelBytes: 0,
  readToolName: () => 'read_result',
  metadataUrl: undefined,
  envelope: new ResultEnvelopes({ name: 'collet', serverVersion: '1' }).of('2025-11-25'),
}

const textOf = (error: CallError, of: ReplyTarget): string =>
  JSON.parse(encodeFailure(error, { callId: 'c', headers: {}, target: of }).json ?? '').result.content[0].text

it('F9: a model is asked once to call again, by the name it knows, without a call id that it cannot send', () => {
  const tool = toolOf(['scale'])
  const error = callErrorOf(approvalRequired({ id: 'x', tool: tool.id }, 'http://h'))
  expect(textOf(error, { ...target, tool })).toBe(
    [
      'A_B needs an approval before it may run. Nothing was run. Once a person has approved it, call again with exactly the same arguments.',
      'Approval needed: http://h/approvals/x',
      'Ask the user to open the address.',
    ].join('\n'),
  )
  expect(textOf(error, { ...target, tool, hasCallId: true })).toContain('the same call id if you sent one.')
  const lost = callErrorOf(blockedBy(tool.id, 'It waits.'))
  expect(textOf(lost, { ...target, tool })).toMatch(
    /^A_B is not finished.* call again with exactly the same arguments\.$/,
  )
})

it('the text of a tool is unchanged', () => {
  const tool = toolOf([])
  const error = { code: 'tool_failed', message: `${tool.id} is closed.`, canRetry: false } as const
  expect(textOf(error, { ...target, tool })).toBe('A.B@1.0.0 is closed.')
})

it.each([true, false])('rule 9: reports whether the same call may be retried: %s', (canRetry) => {
  const error = { code: 'cancelled', message: 'Nothing was run.', canRetry } as const
  const { json } = encodeFailure(error, { callId: 'c', headers: {}, target })
  const retry = canRetry ? { 'collet/canRetry': true } : {}
  const meta = { 'collet/callId': 'c', 'collet/errorCode': 'cancelled', ...retry }
  expect(JSON.parse(json ?? '').result._meta).toEqual(meta)
})
