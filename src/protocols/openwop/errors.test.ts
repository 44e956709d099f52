import { describe, expect, it } from 'vitest'
import { type ErrorCode, FAILURE_CODES, fault, REFUSAL_CODES } from '#kernel/base/errors'
import type { HttpReply } from '#protocols/http-exchange'
import { OPENWOP_ANSWERS, refuse } from './errors.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'

function refusal(
  code: ErrorCode,
  { status = 400, retryAfterMs }: { status?: number; retryAfterMs?: number } = {},
) {
  const error = fault(code, 'What to do.', {
    developerMessage: 'not for this wire',
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  })
  const request = {
    method: 'GET',
    path: '/v1/tools',
    query: new URLSearchParams(),
    headers: {},
    params: {},
    traceId: TRACE,
  }
  const reply: HttpReply = refuse(request, error, status)
  return { ...reply, json: JSON.parse(String(reply.body)) }
}

describe('refuse', () => {
  it.each([...REFUSAL_CODES, ...FAILURE_CODES])(
    'OWP-13, OWP-95: %s has the flat, closed envelope',
    (code) => {
      const { status, headers, json } = refusal(code)
      expect(Object.keys(json).filter((key) => !['error', 'message', 'details'].includes(key))).toEqual([])
      expect([status, json.error, json.message]).toEqual([
        OPENWOP_ANSWERS[code].status,
        OPENWOP_ANSWERS[code].error,
        'What to do.',
      ])
      expect(headers['content-type']).toBe('application/json')
      expect(headers['www-authenticate']).toBe(code === 'unauthenticated' ? 'Bearer' : undefined)
    },
  )

  it.each([
    ['unauthenticated', 401, 'unauthenticated'],
    ['not_authorized', 403, 'forbidden'],
    ['tool_not_found', 404, 'not_found'],
    ['request_invalid', 400, 'validation_error'],
    ['key_conflict', 409, 'idempotency_key_mismatch'],
    ['rate_limited', 429, 'rate_limited'],
    ['internal', 500, 'internal_error'],
  ] as const)('§6.6: %s is %i %s', (code, status, error) => {
    expect(refusal(code)).toMatchObject({ status, json: { error } })
  })

  it('rule 11: no error of a started call invites a retry', () => {
    for (const code of FAILURE_CODES) expect([200, 422]).toContain(OPENWOP_ANSWERS[code].status)
  })

  it('OWP-96: header and body have the same waiting time', () => {
    const { headers, json } = refusal('rate_limited', { retryAfterMs: 1_500.2 })
    expect([headers['retry-after'], json.details]).toEqual(['2', { retryAfterMs: 1_501 }])
    for (const retryAfterMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(refusal('not_ready', { retryAfterMs }).headers['retry-after']).toBe('1')
    }
  })

  it('OWP-95: only a 5xx has a correlation id, inside details', () => {
    expect(refusal('internal').json.details).toEqual({ correlationId: TRACE })
    expect(refusal('tool_not_found').json).not.toHaveProperty('details')
  })

  it.each([
    [404, 404, 'not_found'],
    [405, 405, 'method_not_allowed'],
    [413, 413, 'payload_too_large'],
    [418, 400, 'validation_error'],
  ])('an HTTP refusal with %i is %i %s', (suggested, status, error) => {
    expect(refusal('request_invalid', { status: suggested })).toMatchObject({ status, json: { error } })
    expect(refusal('unauthenticated', { status: suggested }).status).toBe(401)
  })
})
