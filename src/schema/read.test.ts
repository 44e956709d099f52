import { toStandardJsonSchema } from '@valibot/to-json-schema'
import { type } from 'arktype'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { readInputSchema, readOutputSchema } from './read.ts'

const fail = (where: string, problem: string) => expect.fail(`${where}: ${problem}`)

function inputProblem(source: unknown): string {
  const found: string[] = []
  expect(readInputSchema(source, (...finding) => void found.push(finding.join(' | ')))).toBeUndefined()
  expect(found).toHaveLength(1)
  return found.join()
}

function outputProblem(source: unknown): string {
  const found: string[] = []
  expect(readOutputSchema(source, (...finding) => void found.push(finding.join(' | ')))).toBeUndefined()
  expect(found).toHaveLength(1)
  return found.join()
}

describe('readInputSchema', () => {
  const expected = {
    type: 'object',
    properties: { a: { type: 'number', description: 'The a.' } },
    required: ['a'],
  }

  it.each([
    ['zod', z.object({ a: z.number().describe('The a.') })],
    ['arktype', type({ a: type('number').describe('The a.') })],
    ['valibot', toStandardJsonSchema(v.object({ a: v.pipe(v.number(), v.description('The a.')) }))],
  ])('reads a schema of %s and keeps its parse', async (_, source) => {
    const read = readInputSchema(source, fail)
    expect(read?.json).toMatchObject(expected)
    expect(await read?.validate?.({ a: 1 })).toMatchObject({ value: { a: 1 } })
    expect((await read?.validate?.({ a: 'x' }))?.issues).toHaveLength(1)
  })

  it('keeps plain JSON Schema unchanged, without a parse', () => {
    expect(readInputSchema(expected, fail)).toEqual({ json: expected })
    expect(readInputSchema({}, fail)).toEqual({ json: {} })
  })

  it('describes the input of the caller, not the parsed input of `run`', () => {
    const source = z.object({
      n: z.int().default(1),
      when: z.iso.datetime().transform((text) => new Date(text)),
    })
    const read = readInputSchema(source, fail)
    expect(read?.json).toMatchObject({ properties: { when: { type: 'string' } }, required: ['when'] })
    expect(read?.validate?.({ when: '2026-01-01T00:00:00Z' })).toMatchObject({
      value: { n: 1, when: new Date('2026-01-01T00:00:00Z') },
    })
  })

  it('leaves checks that need code to the library', async () => {
    const sources = [
      z.object({ a: z.string().refine((text) => text !== 'no') }),
      type({ a: type('string').narrow((text) => text !== 'no') }),
      toStandardJsonSchema(
        v.object({
          a: v.pipe(
            v.string(),
            v.check((text) => text !== 'no'),
          ),
        }),
      ),
    ]
    for (const source of sources) {
      const read = readInputSchema(source, fail)
      expect(read?.json).toMatchObject({ properties: { a: { type: 'string' } } })
      expect((await read?.validate?.({ a: 'no' }))?.issues).toHaveLength(1)
      expect((await read?.validate?.({ a: 'yes' }))?.issues).toBeUndefined()
    }
  })

  it('refuses types that JSON lacks, and suggests a replacement', () => {
    for (const source of [
      z.date(),
      z.bigint(),
      z.map(z.string(), z.number()),
      z.custom<URL>(),
      z.undefined(),
    ]) {
      expect(inputProblem(z.object({ a: source }))).toMatch(
        /^input \| JSON Schema cannot express it: .*[^.]\. \| JSON has/,
      )
    }
    for (const source of ['Date', 'bigint', 'Map', 'undefined', 'symbol'] as const) {
      expect(inputProblem(type({ a: source }))).toMatch(/cannot be represented in JSON Schema\. \| /)
    }
    expect(inputProblem(toStandardJsonSchema(v.object({ a: v.date() })))).toContain('"date"')
  })

  it('explains how to get JSON Schema from a library', () => {
    expect(inputProblem(v.object({}))).toContain('toStandardJsonSchema(schema)')
    const standard = (vendor: string) => ({
      '~standard': { version: 1, vendor, validate: () => ({ value: 1 }) },
    })
    expect(inputProblem(standard('zod'))).toContain('zod 4.2')
    expect(inputProblem(standard('arktype'))).toContain('arktype 2.2')
    expect(inputProblem(standard('other'))).toContain('plain JSON Schema')
  })

  it('refuses a value that is not a schema', () => {
    expect(inputProblem(undefined)).toContain('Is missing')
    expect(inputProblem(null)).toContain('Is null')
    expect(inputProblem([])).toContain('Is a list')
    expect(inputProblem('object')).toContain('Is "object"')
    expect(inputProblem({ type: 'object', properties: { a: { default: new Date() } } })).toContain(
      'input/properties/a/default',
    )
  })
})

describe('readOutputSchema', () => {
  it('OTC-35: describes the return value of `run`', () => {
    expect(readOutputSchema(z.number(), fail)).toMatchObject({ type: 'number' })
    expect(readOutputSchema({}, fail)).toEqual({})
    expect(
      readOutputSchema(z.object({ a: z.string().default('x'), b: z.looseObject({}) }), fail),
    ).toMatchObject({
      required: ['b'],
    })
    expect(readOutputSchema(type({ a: 'string = "x"' }), fail)).toMatchObject({ type: 'object' })
  })

  it('refuses outputs that JSON Schema cannot express', () => {
    for (const source of [z.date(), z.bigint(), z.void()]) {
      expect(outputProblem(source)).toContain('output | JSON Schema cannot express it')
    }
    expect(outputProblem(z.void())).toContain('`output: null`')
    expect(outputProblem(type('Date'))).toContain('Date cannot be represented')
  })

  it('refuses output schemas with a transform, because it would never run', () => {
    expect(outputProblem(z.string().transform(Number))).toContain('cannot express')
    expect(outputProblem(z.object({ a: z.string().transform(Number).pipe(z.number()) }))).toContain(
      'transforms its value',
    )
    expect(outputProblem(z.record(z.string(), z.stringbool()))).toContain('transforms its value')
    expect(outputProblem(z.stringbool())).toContain('transforms its value')
    expect(outputProblem(type('string.numeric.parse'))).toContain('transforms its value')
    expect(outputProblem(toStandardJsonSchema(v.pipe(v.string(), v.transform(Number))))).toContain(
      'cannot express',
    )
  })

  it('accepts the ordinary schemas of each library', () => {
    const sources = [
      z.object({
        a: z.array(z.enum(['x', 'y'])).nullable(),
        b: z.record(z.string(), z.union([z.string(), z.int()])),
      }),
      z.tuple([z.string()]).rest(z.number()),
      z.discriminatedUnion('k', [z.object({ k: z.literal('a') }), z.strictObject({ k: z.literal('b') })]),
      z
        .object({ id: z.uuid(), mail: z.email(), at: z.iso.datetime(), n: z.number().prefault(1).catch(0) })
        .readonly(),
      type({ a: "('x' | 'y')[]", 'b?': 'string | null', c: { '[string]': 'number' } }),
      toStandardJsonSchema(
        v.object({ a: v.optional(v.string(), 'x'), b: v.nullable(v.array(v.picklist(['x']))) }),
      ),
    ]
    for (const source of sources) expect(readOutputSchema(source, fail)).toBeDefined()
  })
})
