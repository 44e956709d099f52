import { describe, expect, it } from 'vitest'
import type { CallError, CallReply } from '#kernel/call/call'
import { encodeRefusal, encodeResult, encodeToolError } from './codec-response.ts'
import type { Dialect } from './wire.ts'

const SHOWN = { hideDeveloperMessages: false }
const S = 'urn:oxp:1.0'

function encode(dialect: Dialect, reply: CallReply): unknown {
  return JSON.parse(encodeResult({ dialect, schemaId: S, finishedAtMs: 0 }, reply, SHOWN))
}

const three: CallReply = {
  callId: 'c',
  replayed: false,
  outcome: { ok: true, valueJson: '3', durationMs: 2.5 },
}
const nothing: CallReply = {
  callId: 'c',
  replayed: false,
  outcome: { ok: true, valueJson: 'null', durationMs: 0 },
}
const failed: CallReply = {
  callId: 'c',
  replayed: false,
  outcome: { ok: false, durationMs: 60, error: { code: 'tool_failed', message: 'm', canRetry: false } },
}
const error = { message: 'm' }

describe('200 bodies (§3.1)', () => {
  it.each<[Dialect, unknown]>([
    ['otc-1.0', { $schema: S, result: { call_id: 'c', duration: 2.5, success: true, value: 3 } }],
    ['oxp-1.0', { $schema: S, result: { call_id: 'c', duration: 2.5, success: true, value: 3 } }],
    ['oxp-header', { $schema: S, call_id: 'c', duration: 2.5, success: true, value: 3 }],
    ['uts', { success: true, call_id: 'c', value: 3 }],
    [
      'rfc-call',
      {
        $schema: S,
        call_id: 'c',
        duration: 2.5,
        success: true,
        output: { value: 3 },
        result: { call_id: 'c', duration: 2.5, success: true, value: 3 },
      },
    ],
    [
      'execute',
      {
        $schema: S,
        execution_id: 'c',
        duration: 2.5,
        success: true,
        output: { value: 3 },
        response: { execution_id: 'c', duration: 2.5, success: true, output: { value: 3 } },
      },
    ],
    [
      'proto',
      {
        $schema: S,
        execution_id: 'c',
        duration: 2.5,
        finished_at: '1970-01-01T00:00:00.000Z',
        success: true,
        output: { value: 3 },
      },
    ],
  ])('OTC-87…89, OTC/C-03, OTC/C-04: %s with a value', (dialect, body) => {
    expect(encode(dialect, three)).toEqual(body)
  })

  it.each<[Dialect, unknown]>([
    ['oxp-1.0', { $schema: S, result: { call_id: 'c', duration: 0, success: true, value: null } }],
    ['oxp-header', { $schema: S, call_id: 'c', duration: 0, success: true, value: null }],
    ['uts', { success: true, call_id: 'c', value: null }],
    [
      'rfc-call',
      {
        $schema: S,
        call_id: 'c',
        duration: 0,
        success: true,
        result: { call_id: 'c', duration: 0, success: true, value: null },
      },
    ],
    [
      'execute',
      {
        $schema: S,
        execution_id: 'c',
        duration: 0,
        success: true,
        response: { execution_id: 'c', duration: 0, success: true },
      },
    ],
  ])('OTC-91, OTC/C-19: %s without output', (dialect, body) => {
    expect(encode(dialect, nothing)).toEqual(body)
  })

  it.each<[Dialect, unknown]>([
    ['oxp-1.0', { $schema: S, result: { call_id: 'c', duration: 60, success: false, error } }],
    ['oxp-header', { $schema: S, call_id: 'c', duration: 60, success: false, error }],
    ['uts', { success: false, call_id: 'c', error }],
    [
      'rfc-call',
      {
        $schema: S,
        call_id: 'c',
        duration: 60,
        success: false,
        output: { error },
        result: { call_id: 'c', duration: 60, success: false, error },
      },
    ],
    [
      'execute',
      {
        $schema: S,
        execution_id: 'c',
        duration: 60,
        success: false,
        output: { error },
        response: { execution_id: 'c', duration: 60, success: false, output: { error } },
      },
    ],
  ])('OTC-83, OTC-92: %s with a failure', (dialect, body) => {
    expect(encode(dialect, failed)).toEqual(body)
  })

  it('repeats the value bytes as they were serialised', () => {
    const outcome = { ok: true, valueJson: '{"b":1.0,"a":"\\u00e9"}', durationMs: 0 } as const
    const text = encodeResult(
      { dialect: 'oxp-1.0', schemaId: S, finishedAtMs: 0 },
      { callId: 'c', replayed: true, outcome },
      SHOWN,
    )
    expect(text).toContain('"value":{"b":1.0,"a":"\\u00e9"}')
  })

  it('OTC/T-24: returns any call id unchanged', () => {
    const callId = 'ü"\\ 😀'
    expect(encode('oxp-header', { ...three, callId })).toMatchObject({ call_id: callId })
  })
})

describe('tool errors', () => {
  const full: CallError = {
    code: 'tool_failed',
    message: 'Doorbell ID not found',
    developerMessage: 'no doorbell1',
    canRetry: true,
    additionalPromptContent: 'ids: doorbell42',
    retryAfterMs: 499.2,
  }

  it('OTC-84, OTC/C-30: has the members that the tool set, and the wait as a whole number', () => {
    expect(JSON.parse(encodeToolError(full, SHOWN))).toEqual({
      message: 'Doorbell ID not found',
      developer_message: 'no doorbell1',
      can_retry: true,
      additional_prompt_content: 'ids: doorbell42',
      retry_after_ms: 500,
    })
  })

  it('OTC-67, OTC/T-20: developer_message can be left out', () => {
    expect(encodeToolError(full, { hideDeveloperMessages: true })).not.toContain('doorbell1')
  })

  it('OTC-93, rule 10: can_retry is absent unless true; the internal code and effect are not sent', () => {
    const cut: CallError = { code: 'tool_timeout', message: 'm', canRetry: false, effect: 'unknown' }
    expect(JSON.parse(encodeToolError(cut, SHOWN))).toEqual({ message: 'm' })
  })
})

describe('refusals', () => {
  const form = { schemaId: S, callId: 'c' }

  it('OTC-17, OTC-65, OTC-85, OTC/C-18: $schema and message, without $schema in the header dialect', () => {
    const refused = { code: 'tool_not_found', message: 'm', canRetry: false } as const
    expect(JSON.parse(encodeRefusal(form, refused, SHOWN))).toEqual({ $schema: S, message: 'm' })
    expect(JSON.parse(encodeRefusal({ ...form, schemaId: undefined }, refused, SHOWN))).toEqual({
      message: 'm',
    })
  })

  it('OTC-82: parameter_errors has one text per top-level parameter', () => {
    const refused = {
      code: 'input_invalid',
      message: 'm',
      canRetry: false,
      details: {
        issues: [
          { parameter: 'a', pointer: '/a/0', message: 'first' },
          { parameter: 'a', pointer: '/a/1', message: 'second' },
          { parameter: '__proto__', pointer: '/__proto__', message: 'third' },
          { pointer: '', message: 'whole' },
        ],
      },
    } as const
    const text = encodeRefusal(form, refused, SHOWN)
    expect(text).toContain('"parameter_errors":{"a":"/0: first; /1: second","__proto__":"third"}')
  })

  it('OTC/T-13: has no parameter_errors if the input as a whole is wrong', () => {
    const details = { issues: [{ pointer: '', message: 'must be an object' }] }
    const refused = { code: 'input_invalid', message: 'm', canRetry: false, details } as const
    expect(encodeRefusal(form, refused, SHOWN)).not.toContain('parameter_errors')
  })

  it('OTC-75, OTC-76, OTC-79, OTC/C-28: missing requirements in wire spelling, challenges closed', () => {
    const challenge = {
      id: 'ch',
      url: 'https://a/ch',
      checkUrl: 'https://a/ch/status',
      provider: 'google',
      scopes: ['mail'],
    }
    const details = { missing: { authorization: [challenge], secrets: [{ id: 'K' }], userId: true } } as const
    const refused = { code: 'requirement_missing', message: 'm', canRetry: false, details } as const
    expect(JSON.parse(encodeRefusal(form, refused, SHOWN))).toEqual({
      $schema: S,
      message: 'm',
      missing_requirements: {
        authorization: [{ id: 'ch', url: 'https://a/ch', check_url: 'https://a/ch/status' }],
        secrets: [{ id: 'K' }],
        user_id: true,
      },
      challenges: { ch: { provider: 'google', scopes: ['mail'] } },
    })
  })

  it('rule 6: the body for a parked call has its call id', () => {
    const refused = { code: 'approval_required', message: 'm', canRetry: false } as const
    expect(JSON.parse(encodeRefusal(form, refused, SHOWN))).toMatchObject({ call_id: 'c' })
  })
})
