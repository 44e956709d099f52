import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonValue } from '#kernel/base/json'
import { CLIENT_DIALECTS } from './codec-client.ts'
import { isRouteMiss, readCallReply, readRefusal } from './codec-client-reply.ts'

function read(status: number, body: JsonValue | undefined, dialect: 'oxp-1.0' | 'uts' = 'oxp-1.0') {
  const reading = readCallReply(status, body, { dialect })
  return reading.kind === 'failure' ? reading.failure : reading
}

describe('readCallReply', () => {
  it('OTC-76: reads provider and scopes of each challenge from the separate map', () => {
    const missing = {
      authorization: [
        { id: 'a', url: 'https://a.example/a' },
        { id: 'b', url: 'https://a.example/b' },
      ],
    }
    const body = {
      message: 'm',
      missing_requirements: missing,
      challenges: { b: { provider: 'google', scopes: ['mail', 7] } },
    }
    expect(readRefusal(400, body).missing?.authorization).toEqual([
      { id: 'a', url: 'https://a.example/a' },
      { id: 'b', url: 'https://a.example/b', provider: 'google', scopes: ['mail'] },
    ])
  })

  it.each([
    ['result', { result: { call_id: 'x', success: true, value: 1 } }],
    ['response', { response: { call_id: 'x', success: true, value: 1 } }],
    ['bare', { call_id: 'x', success: true, value: 1 }],
    ['flat with output', { call_id: 'x', success: true, output: { value: 1 } }],
    ['response with output', { response: { execution_id: 'x', success: true, output: { value: 1 } } }],
    [
      'the union of /call',
      {
        call_id: 'x',
        success: true,
        output: { value: 1 },
        result: { call_id: 'x', success: true, value: 1 },
      },
    ],
    [
      'a mime type beside the value',
      { response: { call_id: 'x', success: true, mime_type: 'a/b', value: 1 } },
    ],
  ])('OTC/C-03, OTC/C-04, OTC/C-18, OTC/C-20: reads the %s envelope', (_title, body) => {
    expect(read(200, body)).toEqual({ kind: 'value', callId: 'x', value: 1 })
  })

  it('OTC-91, OTC/C-19: an absent value is null, but a falsy value is kept', () => {
    expect(read(200, { success: true })).toEqual({ kind: 'value', value: null })
    expect(read(200, { success: true, output: {} })).toEqual({ kind: 'value', value: null })
    expect(read(200, { success: true, value: false })).toEqual({ kind: 'value', value: false })
    expect(read(200, { success: true, value: 0 })).toEqual({ kind: 'value', value: 0 })
  })

  it('OTC/T-30: an artifact of the first draft is its value', () => {
    const artifact = { url: 'https://a/file', content_type: 'text/plain' }
    expect(read(200, { success: true, output: { artifact } })).toMatchObject({ value: artifact })
  })

  it.each([[undefined], [null], [[]], ['text'], [{}], [{ result: {} }], [{ value: 1 }]])(
    'is not a call response: %j',
    (body) => {
      expect(readCallReply(200, body, { dialect: 'oxp-1.0' })).toEqual({ kind: 'unreadable' })
    },
  )

  it('OTC-93, OTC/C-30: can_retry is false unless true, and waits are numbers from 0', () => {
    const failed = (error: JsonValue) => read(200, { result: { success: false, error } })
    expect(failed({ message: 'm' })).toMatchObject({ class: 'tool', message: 'm', canRetry: false })
    expect(failed({ message: 'm', can_retry: 'yes' })).toMatchObject({ canRetry: false })
    expect(failed({ message: 'm', can_retry: true, retry_after_ms: 1.5 })).toMatchObject({
      retryAfterMs: 1.5,
    })
    expect(failed({ message: 'm', retry_after_ms: -1 })).not.toHaveProperty('retryAfterMs')
    expect(failed(null)).toMatchObject({ class: 'tool', canRetry: false })
  })

  it('OTC/C-22: an invalid input reported as output.error of a 200 is a tool failure', () => {
    const body = { success: false, output: { error: { message: 'Invalid input', developer_message: 'b' } } }
    expect(read(200, body)).toMatchObject({ class: 'tool', message: 'Invalid input', developerMessage: 'b' })
  })
})

describe('challenges', () => {
  const challenge = { id: 'c1', url: 'https://a.example/authorize', check_url: 'https://a.example/check' }
  const read1 = { id: 'c1', url: 'https://a.example/authorize', checkUrl: 'https://a.example/check' }

  it.each([
    ['a 400', 400, { message: 'm', missing_requirements: { authorization: [challenge] } }],
    [
      'a 200 tool error',
      200,
      {
        success: false,
        error: { message: 'm', can_retry: true, missing_requirements: { authorization: [challenge] } },
      },
    ],
    ['requires_authorization', 200, { success: false, output: { requires_authorization: challenge } }],
  ] as const)('OTC/C-27, OTC/T-30: are found in %s', (_title, status, body) => {
    expect(read(status, body)).toMatchObject({
      class: 'authorization_required',
      missing: { authorization: [read1] },
    })
  })

  it('OTC/C-27: the form of universal tool servers counts in uts mode only', () => {
    const body = {
      success: true,
      value: { auth_required: true, auth_url: 'https://a.example/go', auth_id: '7' },
    }
    expect(read(200, body, 'uts')).toMatchObject({
      class: 'authorization_required',
      missing: { authorization: [{ id: '7', url: 'https://a.example/go' }] },
    })
    expect(read(200, body)).toMatchObject({ kind: 'value' })
  })

  it('are shown only with addresses a browser may open', () => {
    const urls = ['javascript:alert(1)', 'data:text/html,x', '/relative', 'file:///etc/passwd', 7, null]
    const authorization = urls.map((url) => ({ id: 'c', url }))
    expect(read(400, { message: 'm', missing_requirements: { authorization } })).toMatchObject({
      class: 'authorization_required',
      missing: { authorization: [] },
    })
  })

  it.each([
    ['approval_required', { approval: [challenge] }],
    ['approval_required', { approval: challenge }],
    ['requirements', { secrets: [{ id: 'K' }] }],
    ['requirements', { user_id: true }],
    ['requirements', {}],
    ['authorization_required', { authorization: [challenge], user_id: true, secrets: [{ id: 'K' }] }],
  ])('OTC/C-28, OTC-79: %s for %j', (kind, missing) => {
    expect(read(400, { message: 'm', missing_requirements: missing })).toMatchObject({ class: kind })
  })
})

describe('refusals', () => {
  it.each([
    [400, 'approval_required', 'approval_required'],
    [400, 'not_ready', 'server'],
    [400, 'rate_limited', 'server'],
    [400, 'approval_rejected', 'server'],
    [400, null, 'server'],
    [401, 'approval_required', 'unauthenticated'],
    [502, 'approval_required', 'transport'],
  ] as const)('%i with Collet-Error-Code %s is %s', (status, errorCode, kind) => {
    expect(readCallReply(status, { message: 'm' }, { dialect: 'oxp-1.0', errorCode })).toMatchObject({
      failure: { class: kind },
    })
  })

  it.each([
    [400, 'server'],
    [401, 'unauthenticated'],
    [403, 'server'],
    [404, 'server'],
    [409, 'server'],
    [413, 'server'],
    [422, 'validation'],
    [429, 'server'],
    [500, 'transport'],
    [503, 'transport'],
  ])('OTC/C-21, OTC/C-23: status %i is %s, with or without a body', (status, kind) => {
    for (const body of [undefined, null, [], 'text', {}]) {
      const failure = read(status, body)
      expect(failure).toMatchObject({ class: kind })
      expect(failure).toHaveProperty('message', expect.stringMatching(/./))
    }
  })

  it.each([
    [{ message: 'a', detail: 'b', error: 'c' }, 'a'],
    [{ detail: 'b', error: 'c' }, 'b'],
    [{ error: 'c' }, 'c'],
    [{ error: { message: 'd' } }, 'd'],
    [{ detail: ['Invalid payload'] }, 'Invalid payload'],
    [{ detail: [{ loc: ['body'], msg: 'field required' }, { msg: 'too long' }] }, 'field required; too long'],
  ])('OTC/C-23: the message of %j is %j', (body, message) => {
    expect(read(400, body)).toMatchObject({ message })
  })

  it('OTC-82, OTC/C-30: parameter errors are strings by name', () => {
    const body = { message: 'm', parameter_errors: { a: 'Must be a number', b: ['x', 1] } }
    expect(read(422, body)).toMatchObject({ parameterErrors: { a: 'Must be a number', b: '["x",1]' } })
  })

  it('OTC-85, OTC-115, OTC/C-32: reads any status and any JSON without throwing', () => {
    const members = fc.dictionary(
      fc.constantFrom(
        'result',
        'response',
        'success',
        'output',
        'value',
        'error',
        'message',
        'missing_requirements',
      ),
      fc.jsonValue(),
    )
    fc.assert(
      fc.property(
        fc.integer({ min: 200, max: 599 }),
        fc.oneof(fc.jsonValue(), members),
        fc.constantFrom(...CLIENT_DIALECTS),
        (status, body, dialect) => {
          const reading = readCallReply(status, JSON.parse(JSON.stringify(body)), { dialect })
          if (reading.kind === 'failure') expect(reading.failure.message).not.toBe('')
        },
      ),
    )
  })
})

describe('isRouteMiss', () => {
  it.each([
    [405, { message: 'Method Not Allowed' }, true],
    [404, undefined, true],
    [404, { detail: 'Not Found' }, true],
    [404, { message: 'Route POST:/tools/call not found' }, true],
    [404, { detail: 'Tool add@9.0.0 not found' }, false],
    [404, { message: 'No Calculator.Add here' }, false],
    [400, { message: 'bad' }, false],
    [200, {}, false],
  ])('OTC/C-01: %i with %j: %s', (status, body, isMiss) => {
    expect(isRouteMiss(status, body, 'Calculator.Add@1.0.0')).toBe(isMiss)
  })
})
