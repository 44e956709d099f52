import { describe, expect, it } from 'vitest'
import { FAILURE_CODES, REFUSAL_CODES } from '#kernel/base/errors'
import { MCP_ANSWERS } from './reply.ts'

describe('the error table', () => {
  it('MCP-69, MCP-20, rule 11: after a run has begun every end is a result the model reads', () => {
    expect(FAILURE_CODES.map((code) => MCP_ANSWERS[code].kind)).toEqual(FAILURE_CODES.map(() => 'tool error'))
  })

  it('MCP-69: JSON-RPC errors are for what could not be called; those who should come again get a status', () => {
    const codesOf = (kind: string) => REFUSAL_CODES.filter((code) => MCP_ANSWERS[code].kind === kind)
    expect(codesOf('later')).toEqual(['rate_limited', 'budget_exceeded', 'overloaded', 'not_ready'])
    expect(codesOf('ask')).toEqual(['requirement_missing', 'approval_required'])
    expect(codesOf('error')).toContain('tool_not_found')
    expect(codesOf('tool error')).toEqual(['input_invalid', 'approval_rejected'])
  })
})
