import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FAILURE_CODES } from '#kernel/base/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Outcome } from '#kernel/call/call'
import { encodePlainResult, encodeResult } from './codec-response.ts'
import type { Dialect } from './wire.ts'

/** How each dialect represents an absent output: as `null` or by leaving it out (OTC/C-19). */
const NO_OUTPUT = {
  proto: 'null',
  execute: 'absent',
  'rfc-call': 'absent',
  'otc-1.0': 'null',
  'oxp-1.0': 'null',
  'oxp-header': 'null',
  uts: 'null',
} satisfies Record<Dialect, 'null' | 'absent'>

const dialects = fc.constantFrom<Dialect>(
  'proto',
  'execute',
  'rfc-call',
  'otc-1.0',
  'oxp-1.0',
  'oxp-header',
  'uts',
)

const failures = fc
  .record(
    {
      code: fc.constantFrom(...FAILURE_CODES),
      message: fc.string(),
      canRetry: fc.boolean(),
      developerMessage: fc.string(),
      additionalPromptContent: fc.string(),
      retryAfterMs: fc.double(),
      effect: fc.constant('unknown' as const),
    },
    { requiredKeys: ['code', 'message', 'canRetry'] },
  )
  .map((error): Outcome => ({ ok: false, error, durationMs: 1.5 }))

/** Values with members named like those of a result, so that a mix-up would be found. */
const values = fc.oneof(
  fc.jsonValue(),
  fc.record({ success: fc.boolean(), error: fc.jsonValue(), value: fc.jsonValue(), output: fc.jsonValue() }),
)
const successes = values.map(
  (value): Outcome => ({ ok: true, valueJson: JSON.stringify(value), durationMs: 0 }),
)

/** Every result in a body: the body itself, and the copies in older dialects. */
function resultsIn(body: JsonObject): readonly JsonObject[] {
  return [body, body.result, body.response].filter(
    (part): part is JsonObject => isJsonObject(part) && 'success' in part,
  )
}

/** The names of the outcome members of a result, in itself or in `output`. */
function outcomeNamesOf(result: JsonObject): readonly ('value' | 'error')[] {
  const positions = [result, ...(isJsonObject(result.output) ? [result.output] : [])]
  return positions.flatMap((index) =>
    (['value', 'error'] as const).filter((name) => Object.hasOwn(index, name)),
  )
}

function bodyOf(text: string): JsonObject {
  const body: JsonValue = JSON.parse(text)
  return isJsonObject(body) ? body : expect.fail(text)
}

describe('value and error', () => {
  it('OTC-88, OTC-92: exclude each other in every dialect, and error is present exactly if success is false', () => {
    fc.assert(
      fc.property(
        dialects,
        fc.oneof(successes, failures),
        fc.boolean(),
        fc.string(),
        (dialect, outcome, hideDeveloperMessages, callId) => {
          const form = { dialect, schemaId: 'urn:oxp:1.0', finishedAtMs: 0 }
          const options = { hideDeveloperMessages }
          const body = bodyOf(encodeResult(form, { callId, outcome, replayed: false }, options))
          const results = resultsIn(body)
          expect(results.length).toBeGreaterThan(0)
          for (const result of results) {
            expect(result.success).toBe(outcome.ok)
            const hasNone = outcome.ok && outcome.valueJson === 'null' && isOutputForm(result, dialect)
            expect(outcomeNamesOf(result)).toEqual(hasNone ? [] : [outcome.ok ? 'value' : 'error'])
          }
        },
      ),
      { numRuns: 500 },
    )
  })

  it('OTC-92: exclude each other in the view of a single call', () => {
    fc.assert(
      fc.property(fc.oneof(successes, failures), (outcome) => {
        const result = bodyOf(encodePlainResult('c', outcome, { hideDeveloperMessages: false }))
        expect(outcomeNamesOf(result)).toEqual([outcome.ok ? 'value' : 'error'])
      }),
    )
  })
})

/** True for a result of the March drafts, which leave out `output` instead of sending `null`. */
function isOutputForm(result: JsonObject, dialect: Dialect): boolean {
  return NO_OUTPUT[dialect] === 'absent' && !Object.hasOwn(result, 'value')
}
