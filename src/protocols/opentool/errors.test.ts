import { describe, expect, it } from 'vitest'
import { type ErrorCode, FAILURE_CODES, REFUSAL_CODES, ToolError } from '#kernel/base/errors'
import { callErrorOf } from '#kernel/call/execute'
import { OPENTOOL_CODES, toWireError } from './errors.ts'

const CODES: readonly ErrorCode[] = [...REFUSAL_CODES, ...FAILURE_CODES]

describe('errors on OpenTool', () => {
  it('OTS-40: 405 is for unknown functions, 400 for errors that the caller can correct, 500 for all others', () => {
    const numbered = (number: number) => CODES.filter((code) => OPENTOOL_CODES[code] === number)
    expect(numbered(405)).toEqual(['tool_not_found'])
    expect(numbered(400)).toEqual([
      'request_invalid',
      'version_unsupported',
      'key_conflict',
      'session_not_found',
      'input_invalid',
    ])
    expect(CODES.every((code) => [400, 405, 500].includes(OPENTOOL_CODES[code]))).toBe(true)
  })

  it.each(CODES)('OTS-39: %s has a message, its code and its call id, and no developer message', (code) => {
    const error = {
      code,
      message: 'What happened.',
      developerMessage: 'see /srv',
      canRetry: false,
      errorNumber: 7,
    }
    const shown = toWireError(error, { method: 'f', callId: 'c-1' })
    expect(shown.data).toEqual({ code, call_id: 'c-1' })
    expect(shown.message).not.toBe('')
    expect(JSON.stringify(shown)).not.toContain('/srv')
    // Only a tool can set its own number.
    expect(shown.code).toBe(code === 'tool_failed' ? 7 : OPENTOOL_CODES[code])
  })

  it.each([
    [405, 'Function Not Supported: x'],
    [400, 'Invalid Arguments: b is zero'],
    [500, 'The device is gone.'],
    [404, 'Json Parser NOT implement'],
  ])('OTS-68: a tool can fail like the SDKs: %i with the text %j', (code, message) => {
    const error = callErrorOf(new ToolError(message, { errorNumber: code }))
    expect(toWireError(error, { method: 'f', callId: 'c' })).toMatchObject({ code, message })
  })

  it('reports how many arguments are wrong, and describes the first five', () => {
    const issues = Array.from({ length: 7 }, (_, index) => ({
      parameter: `p${index}`,
      pointer: `/p${index}`,
      message: 'Is bad',
    }))
    const error = {
      code: 'input_invalid',
      message: '',
      canRetry: false,
      details: { issues: [...issues, { pointer: '', message: 'Is odd' }] },
    } as const
    const { message, data } = toWireError(error, { method: 'f', callId: 'c' })
    expect(message).toBe(
      'Invalid Arguments: p0: Is bad; p1: Is bad; p2: Is bad; p3: Is bad; p4: Is bad (and 3 more)',
    )
    expect(Object.keys(data?.parameter_errors ?? {})).toHaveLength(7)
  })

  it('rule 10: reports an unknown effect', () => {
    const error = { code: 'tool_timeout', message: 'm', canRetry: false, effect: 'unknown' } as const
    expect(toWireError(error, { method: 'f', callId: 'c' }).data).toMatchObject({ effect: 'unknown' })
  })
})
