import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { fromJsonSchema } from '#protocols/opentool/codec-convert-from-json'
import { SchemaConversionError } from '#protocols/opentool/codec-convert-shape'
import type { OpenToolParameter, OpenToolSchema } from '#protocols/opentool/codec-document'
import { load } from '#protocols/opentool/codec-document-read'
import { toJsonSchema } from '#protocols/opentool/codec-to-json-schema'
import { anySchema, instance, parameters, plainSchema } from './opentool-arbitraries.ts'
import { expectStrictlyValid } from './opentool-document-vectors.ts'

/** Schemas that convert almost completely, and some that lose most of their constraints. */
const inputSchema = fc.oneof({ arbitrary: plainSchema, weight: 4 }, { arbitrary: anySchema, weight: 1 })

const RUNS = Number(process.env.OPENTOOL_RUNS ?? 400)

function judge(schema: JsonObject): ValidateFunction {
  return new Ajv2020({
    strict: false,
    validateFormats: false,
    ownProperties: true,
    validateSchema: false,
    meta: false,
  }).compile(schema)
}

/** Conversion moves a schema's description up to its parameter, unless the parameter has another one. */
function normalize(written: readonly OpenToolParameter[]): readonly OpenToolParameter[] {
  return written.map((parameter) => {
    const { description: own, ...schema } = described(parameter.schema)
    const description = parameter.description ?? own
    return {
      ...parameter,
      ...(description === undefined ? {} : { description }),
      schema: own === undefined || own === description ? schema : parameter.schema,
    }
  })
}

function described(schema: OpenToolSchema) {
  if ('$ref' in schema) throw new Error('generated schemas have no references')
  return schema
}

/** Arguments as a caller that reads the document would send them. */
function argumentsFor(written: readonly OpenToolParameter[]): fc.Arbitrary<JsonObject> {
  const members = written.filter(({ name }) => name !== '__proto__')
  return fc.record(Object.fromEntries(members.map(({ name, schema }) => [name, valueFor(schema)])), {
    requiredKeys: members.filter(({ required }) => required).map(({ name }) => name),
  })
}

function valueFor(schema: OpenToolSchema): fc.Arbitrary<JsonValue> {
  const { type, enum: values, items, properties = {}, required = [] } = described(schema)
  if (values !== undefined) return fc.constantFrom(...values)
  if (type === 'array') return fc.array(items === undefined ? instance : valueFor(items), { maxLength: 2 })
  if (type === 'boolean') return fc.boolean()
  if (type === 'string') return fc.string({ maxLength: 3 })
  if (type === 'integer') return fc.integer()
  if (type === 'number') return fc.double({ noNaN: true, noDefaultInfinity: true })
  const undeclared = required.filter((name) => !Object.hasOwn(properties, name))
  return fc
    .record(Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, valueFor(inner)])), {
      requiredKeys: required.filter((name) => Object.hasOwn(properties, name)),
    })
    .map((value) => ({ ...value, ...Object.fromEntries(undeclared.map((name) => [name, 1])) }))
}

describe('OTS-85: conversion', () => {
  it('OTS-80: from OpenTool to JSON Schema and back is the identity', () => {
    fc.assert(
      fc.property(parameters, (written) => {
        expectStrictlyValid(written)
        const back = fromJsonSchema(toJsonSchema({ parameters: written }).input, { mode: 'strict' })
        expect(back.losses).toEqual([])
        expect(back.parameters).toEqual(normalize(written))
      }),
      { numRuns: RUNS },
    )
  })

  it('OTS-80: JSON Schema accepts exactly the values that the OpenTool schema describes', () => {
    const cases = parameters.chain((written) =>
      fc.tuple(fc.constant(written), argumentsFor(written), instance),
    )
    fc.assert(
      fc.property(cases, ([written, given, other]) => {
        const known = written.filter(({ name }) => name !== '__proto__')
        const accepts = judge(toJsonSchema({ parameters: known }).input)
        expect({ given, accepted: accepts(given) }).toEqual({ given, accepted: true })
        for (const { name, schema } of known) {
          const accepted = fits(other, schema)
          expect({ name, other, accepted: accepts({ ...given, [name]: other }) }).toEqual({
            name,
            other,
            accepted,
          })
        }
      }),
      { numRuns: RUNS },
    )
  })

  it('OTS-81/82: from JSON Schema to OpenTool widens, unless it reports an approximation', () => {
    let judged = 0
    fc.assert(
      fc.property(inputSchema, fc.array(instance, { minLength: 30, maxLength: 30 }), (source, values) => {
        const converted = convert(source)
        if (converted === undefined) return
        expectStrictlyValid(converted.parameters)
        if (converted.losses.some(({ severity }) => severity === 'approximated')) return
        const fitsSource = judge(source)
        const fitsResult = judge(toJsonSchema({ parameters: converted.parameters }).input)
        for (const value of values.flatMap((each) => [
          each,
          { a: each, b: each, c: each },
          { a: each },
          { b: each },
        ])) {
          if (!fitsSource(value)) continue
          judged += 1
          expect({ value, accepted: fitsResult(value) }).toEqual({ value, accepted: true })
        }
      }),
      { numRuns: RUNS },
    )
    expect(judged).toBeGreaterThan(RUNS)
  })

  it('OTS-81/82: without any reported loss it accepts exactly the same values', () => {
    let judged = 0
    fc.assert(
      fc.property(inputSchema, fc.array(instance, { minLength: 30, maxLength: 30 }), (source, values) => {
        const converted = convert(source)
        if (converted === undefined || converted.losses.length > 0) return
        const fitsSource = judge(source)
        const fitsResult = judge(toJsonSchema({ parameters: converted.parameters }).input)
        for (const value of values.flatMap((each) => [each, { a: each }, { b: each, c: each }])) {
          judged += 1
          expect({ value, accepted: fitsResult(value) }).toEqual({ value, accepted: fitsSource(value) })
        }
      }),
      { numRuns: RUNS },
    )
    expect(judged).toBeGreaterThan(RUNS)
  })

  it('OTS-83: strict refuses exactly what lossy approximates', () => {
    fc.assert(
      fc.property(inputSchema, (source) => {
        const lossy = convert(source)
        const refused =
          lossy === undefined || lossy.losses.some(({ severity }) => severity === 'approximated')
        if (refused) expect(() => fromJsonSchema(source)).toThrow(SchemaConversionError)
        else expect(fromJsonSchema(source)).toEqual(lossy)
      }),
      { numRuns: RUNS },
    )
  })

  it('OTS-85: a converted document loads, and converts to the same schema again', () => {
    fc.assert(
      fc.property(inputSchema, (source) => {
        const converted = convert(source)
        if (converted === undefined) return
        const { parameters: made } = converted
        const functions = [{ name: 'f', description: '', parameters: made }]
        const loaded = load({ opentool: '1.1.0', info: { title: '', version: '' }, functions })
        expect(loaded.functions[0]?.parameters).toEqual(made)
        const again = fromJsonSchema(toJsonSchema({ parameters: made }).input)
        expect(again).toEqual({ parameters: made, losses: [] })
      }),
      { numRuns: RUNS },
    )
  })
})

/** The result of lossy conversion; `undefined` for a schema that OpenTool cannot express at all. */
function convert(source: JsonObject) {
  try {
    return fromJsonSchema(source, { mode: 'lossy' })
  } catch (error) {
    if (error instanceof SchemaConversionError) return undefined
    throw error
  }
}

/** An independent implementation of OpenTool schemas. */
function fits(value: JsonValue | undefined, schema: OpenToolSchema): boolean {
  const { type, enum: values, items, properties = {}, required = [] } = described(schema)
  if (values !== undefined && !values.some((each) => each === value)) return false
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'array') {
    return Array.isArray(value) && value.every((item) => items === undefined || fits(item, items))
  }
  if (type !== 'object') return typeof value === type
  if (!isJsonObject(value) || required.some((name) => !Object.hasOwn(value, name))) return false
  return Object.entries(properties).every(
    ([name, inner]) => !Object.hasOwn(value, name) || fits(value[name], inner),
  )
}
