import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonValue } from '#kernel/base/json'
import { Secret } from '#kernel/base/secret'
import { callRequest } from '#testing/test-gateway'
import { cleanerFor, redactLogged, redactOutput, redactText, redactThrown } from './redact.ts'

const MARK = '[redacted]'
/** Excludes parts of `[redacted]`, which every cleaned text contains. */
const secret = fc
  .string({ minLength: 6, maxLength: 40, unit: 'grapheme' })
  .filter((text) => text.length >= 6 && !MARK.includes(text))
const requestWith = (...texts: readonly string[]) =>
  callRequest('A.B@1.0.0', {
    secrets: new Map(texts.map((text, index) => [String(index), new Secret(text)])),
  })

describe('the credentials of a call', () => {
  it('T-20, OWP-75: are in no cleaned text, however many there are', () => {
    fc.assert(
      fc.property(secret, secret, fc.string(), fc.string(), (one, two, before, after) => {
        const cleaned = redactText(`${before}${one}${after}${two}${before}`, requestWith(one, two))
        expect(cleaned.includes(one) && !MARK.includes(one)).toBe(false)
        // A credential can reappear only if removing the other one joins the text around it.
        const rest = `${before}${after}`
        if (!rest.includes(two) && !one.includes(two) && !two.includes(one) && !overlaps(one, two))
          expect(cleaned.split(MARK).some((part) => part.includes(two))).toBe(false)
      }),
    )
  })

  it('T-20: are removed in every spelling from thrown values and log fields', () => {
    fc.assert(
      fc.property(secret, (text) => {
        const request = requestWith(text)
        const cause = Object.assign(new TypeError(`?token=${encodeURIComponent(text)}`), {
          config: { auth: [text] },
        })
        const thrown = new Error(`a ${text} b`, { cause })
        const base64 = Buffer.from(text).toString('base64')
        const shown = JSON.stringify([
          flat(redactThrown(thrown, request)),
          redactLogged(
            { deep: [{ [text]: `x${text}`, url: new URL('http://a.example/?q=1'), base64 }] },
            request,
          ),
        ])
        for (const spelling of [text, JSON.stringify(text).slice(1, -1), base64])
          expect(shown.split(MARK).some((part) => part.includes(spelling))).toBe(false)
      }),
    )
  })

  it('do not change anything else', () => {
    const fields = { n: 1, text: 'plain', list: [true, null], error: new Error('x') }
    const cleaned = redactLogged(fields, requestWith('something-else'))
    expect(cleaned).toMatchObject({ n: 1, text: 'plain', list: [true, null], error: { message: 'x' } })
    expect(redactLogged(fields, callRequest('A.B@1.0.0'))).toBe(fields)
  })
})

function overlaps(one: string, two: string): boolean {
  return [...one].some((_, at) => two.startsWith(one.slice(at)) || two.endsWith(one.slice(0, at + 1)))
}

describe('an upstream’s answer that is nested 5 000 levels deep', () => {
  const deep: JsonValue = JSON.parse(`${'['.repeat(5_000)}"top-secret"${']'.repeat(5_000)}`)

  it('is refused with an explanation, whoever the credential belongs to', () => {
    const refusal = expect.objectContaining({
      code: 'output_invalid',
      message: expect.stringContaining('200'),
    })
    expect(() => redactOutput(deep, requestWith('top-secret'))).toThrow(refusal)
    const cleaner = cleanerFor([new Secret('top-secret')])
    expect(() => cleaner?.output(deep)).toThrow(refusal)
  })

  it('is searched down to the limit', () => {
    const nested: unknown = JSON.parse(`${'['.repeat(200)}"top-secret"${']'.repeat(200)}`)
    expect(JSON.stringify(redactOutput(nested, requestWith('top-secret')))).toContain(`["${MARK}"]`)
  })
})

function flat(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  return { ...error, message: error.message, stack: error.stack, cause: flat(error.cause) }
}

describe('many texts', () => {
  it('take one pass each, for any number of credentials', () => {
    const request = requestWith(...Array.from({ length: 100 }, (_, position) => `(secret)+${position}.*`))
    const one = requestWith('(secret)+0.*')
    const cpuOf = (tried: typeof request) => {
      const before = process.cpuUsage().user
      for (let text = 0; text < 100_000; text += 1) redactText('(secret)', tried)
      return process.cpuUsage().user - before
    }
    cpuOf(one)
    expect(cpuOf(request)).toBeLessThan(30 * cpuOf(one) + 100_000)
    expect(redactText('a (secret)+42.* b', request)).toBe(`a ${MARK} b`)
  })

  it('T-20: long credentials are removed too', () => {
    const key = 'k'.repeat(300)
    expect(redactText(`a ${key} b`, requestWith(key, 'short-one'))).toBe(`a ${MARK} b`)
  })
})
