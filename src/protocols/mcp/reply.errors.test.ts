import { describe, expect, it } from 'vitest'
import { FAILURE_CODES, REFUSAL_CODES } from '#kernel/base/errors'
import { MCP_ANSWERS } from './reply.ts'

describe('the error table', () => {
  it('MCP-69, MCP-20, rule 11: every failure after a run began is a result that the model reads', () => {
    expect(FAILURE_CODES.map((code) => MCP_ANSWERS[code].kind)).toEqual(FAILURE_CODES.map(() => 'tool error'))
  })

  it('MCP-69: a call that could not begin gets a JSON-RPC error; one that may be retried gets a status', () => {
    const codesOf = (kind: string) => REFUSAL_CODES.filter((code) => MCP_ANSWERS[code].kind === kind)
    expect(codesOf('later')).toEqual(['rate_limited', 'budget_exceeded', 'overloaded', 'not_ready'])
    expect(codesOf('ask')).toEqual(['requirement_missing', 'approval_required'])
    expect(codesOf('error')).toContain('tool_not_found')
    expect(codesOf('tool error')).toEqual(['input_invalid', 'approval_rejected'])
  })
})
