import { describe, expect, it } from 'vitest'
import { FAILURE_CODES, fault, REFUSAL_CODES } from '#kernel/base/errors'
import { OTC_ANSWERS, refusalReply } from './codec-response.ts'

const FORM = { schemaId: 'urn:oxp:1.0', callId: undefined }
const SHOWN = { hideDeveloperMessages: false }

describe('OTC_ANSWERS', () => {
  it('OTC-11, OTC-63, OTC-83: every failure after the start is 200', () => {
    expect(FAILURE_CODES.map((code) => OTC_ANSWERS[code].status)).toEqual(FAILURE_CODES.map(() => 200))
  })

  it('OTC-64, OTC-68, OTC-69, OTC-70, OTC-71: every other refusal is 400', () => {
    const others = new Map(
      REFUSAL_CODES.map((code) => [code, OTC_ANSWERS[code].status] as const).filter(
        ([, status]) => status !== 400,
      ),
    )
    expect(Object.fromEntries(others)).toEqual({
      unauthenticated: 401,
      input_invalid: 422,
      call_not_found: 404,
    })
  })

  it('rule 11: no answer is 408, 409, 429 or 5xx', () => {
    const statuses = Object.values(OTC_ANSWERS).map(({ status }) => status)
    expect(statuses.filter((status) => [408, 409, 429].includes(status) || status >= 500)).toEqual([])
  })
})

describe('refusalReply', () => {
  it.each(['rate_limited', 'budget_exceeded', 'overloaded', 'not_ready'] as const)(
    'OTC/C-24, OTC-68: %s says when to retry',
    (code) => {
      const reply = refusalReply(FORM, fault(code, 'm', { retryAfterMs: 2_100 }), SHOWN)
      expect(reply).toMatchObject({ status: 400, headers: { 'retry-after': '3', 'x-should-retry': 'true' } })
      expect(refusalReply(FORM, fault(code, 'm'), SHOWN).headers['retry-after']).toBe('1')
    },
  )

  it('OTC/C-24: an error that waiting cannot resolve has no waiting time', () => {
    const { headers } = refusalReply(FORM, fault('tool_not_found', 'm', { retryAfterMs: 5 }), SHOWN)
    expect(headers).not.toHaveProperty('retry-after')
    expect(headers).not.toHaveProperty('x-should-retry')
  })

  it('OTC-72, OTC-102, OTC-108, OTC/C-21: bad credentials are 401 with a challenge and the usual body', () => {
    const reply = refusalReply(FORM, fault('unauthenticated', 'm'), { ...SHOWN, suggested: 401 })
    expect(reply).toMatchObject({ status: 401, headers: { 'www-authenticate': 'Bearer' } })
    expect(reply.body).toBe('{"$schema":"urn:oxp:1.0","message":"m"}')
  })

  it('OTC/T-26: keeps the statuses of HTTP itself; the others follow the table', () => {
    const status = (suggested: number) =>
      refusalReply(FORM, fault('request_invalid', 'm'), { ...SHOWN, suggested }).status
    expect([404, 405, 413, 415, 429, 500, 503].map(status)).toEqual([404, 405, 413, 400, 400, 400, 400])
  })

  it('never answers a refusal with 200', () => {
    expect(refusalReply(FORM, fault('tool_failed', 'm'), SHOWN).status).toBe(400)
  })

  it('OTC-21: has the version header', () => {
    expect(refusalReply(FORM, fault('internal', 'm'), SHOWN).headers['oxp-version']).toBe('1.0')
  })
})
