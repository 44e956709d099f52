import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { cpuMsSince } from '../../../test/cpu-time.ts'
import type { OpenToolDocument } from './codec-document.ts'
import { OpenToolDocumentError } from './codec-document.ts'
import { load, serialize, validate } from './codec-document-read.ts'
import { dereference } from './codec-document-references.ts'

const EMPTY = { opentool: '1.1.0', info: { title: 't', version: '1' }, functions: [] }

function documentWith(schemas: JsonObject, use: string): JsonObject {
  const schema = { $ref: `#/schemas/${use}` }
  const parameters = [{ name: 'p', schema, required: true }]
  const stream = { data: { name: 'd', schema } }
  const functions = [{ name: 'f', description: '', parameters, return: { name: 'r', schema }, stream }]
  return { ...EMPTY, functions, schemas }
}

/** Schemas that each refer to the previous one `times` times. */
function chain(length: number, times: number): JsonObject {
  const schemas: Record<string, JsonObject> = { s0: { type: 'string' } }
  for (let index = 1; index < length; index += 1) {
    const before = { $ref: `#/schemas/s${index - 1}` }
    const names = Array.from({ length: times }, (_, position) => [`p${position}`, before] as const)
    schemas[`s${index}`] = { type: 'object', properties: Object.fromEntries(names) }
  }
  return schemas
}

describe('dereference', () => {
  it('OTS-24: replaces references everywhere, including `schemas` and aliases', () => {
    const word = { type: 'string', description: 'orig' }
    const list = { type: 'array', items: { $ref: '#/schemas/Word' } }
    const loaded = load(documentWith({ List: list, Alias: { $ref: '#/schemas/List' }, Word: word }, 'Alias'))
    const inlined = { type: 'array', items: word }
    const plain = dereference(loaded)
    expect(plain.schemas).toEqual({ List: inlined, Alias: inlined, Word: word })
    const [only] = plain.functions
    expect(only?.parameters[0]?.schema).toEqual(inlined)
    expect(only?.return?.schema).toEqual(inlined)
    expect(only?.stream?.data?.schema).toEqual(inlined)
    expect(serialize(plain)).not.toContain('$ref')
    expect(dereference(plain)).toEqual(plain)
  })

  it('OTS-21: ignores siblings of a reference', () => {
    const schemas = {
      A: { type: 'string', description: 'orig' },
      B: { $ref: '#/schemas/A', description: 'mine' },
    }
    expect(dereference(load({ ...EMPTY, schemas })).schemas?.B).toEqual(schemas.A)
  })

  it('OTS-22: a cycle is an error for strict readers; lenient readers cut it and add a note', () => {
    const schemas = {
      A: { type: 'object', properties: { b: { $ref: '#/schemas/B' } } },
      B: { type: 'object', properties: { a: { $ref: '#/schemas/A' }, again: { $ref: '#/schemas/A' } } },
      Self: { $ref: '#/schemas/Self' },
    }
    const document = documentWith(schemas, 'B')
    const positions = ['/schemas/A OTS-22', '/schemas/Self OTS-22']
    expect(validate(document).map(({ path, rule }) => `${path} ${rule}`)).toEqual(positions)
    const cut = (name: string) => ({
      type: 'object',
      description: `A recursive ${name}, not written out any further.`,
      properties: {},
    })
    const plain = dereference(load(document, { mode: 'lenient' }))
    const b = { type: 'object', properties: { a: cut('A'), again: cut('A') } }
    expect(plain.schemas).toEqual({ A: { type: 'object', properties: { b } }, B: b, Self: cut('Self') })
    expect(plain.functions[0]?.parameters[0]?.schema).toEqual(b)
    expect(validate(serialize(plain))).toEqual([])
  })

  it('OTS-22: ends on schemas that all refer to each other', () => {
    const names = Array.from({ length: 40 }, (_, index) => `s${index}`)
    const properties = Object.fromEntries(names.map((name) => [name, { $ref: `#/schemas/${name}` }]))
    const schemas = Object.fromEntries(names.map((name) => [name, { type: 'object', properties }]))
    const findings = validate({ ...EMPTY, schemas }, { mode: 'lenient' })
    expect(findings.filter(({ level }) => level === 'error').map(({ rule }) => rule)).toEqual(['OTS-26'])
  })

  it('OTS-26: a billion laughs, a deep chain and a long alias chain fail fast in both modes', () => {
    const aliases: Record<string, JsonObject> = { a0: { type: 'string' } }
    for (let index = 1; index < 20_000; index += 1) aliases[`a${index}`] = { $ref: `#/schemas/a${index - 1}` }
    const longText = { L: { type: 'string', description: 'x'.repeat(100_000) } }
    const many = Array.from({ length: 1_000 }, (_, index) => [`p${index}`, { $ref: '#/schemas/L' }] as const)
    const hostile: [JsonObject, string][] = [
      [chain(20, 2), ''],
      [chain(70, 3), ''],
      [chain(20_000, 1), '/schemas/s80'],
      [Object.fromEntries(Object.entries(chain(20_000, 1)).reverse()), '/schemas/s19999'],
      [aliases, '/schemas/a240'],
      [{ ...longText, M: { type: 'object', properties: Object.fromEntries(many) } }, ''],
    ]
    const started = process.cpuUsage()
    for (const [schemas, path] of hostile) {
      for (const mode of ['strict', 'lenient'] as const) {
        const findings = validate({ ...EMPTY, schemas }, { mode })
        expect(findings.map((finding) => `${finding.path} ${finding.rule}`)).toEqual([`${path} OTS-26`])
      }
    }
    expect(cpuMsSince(started)).toBeLessThan(5_000)
  })

  it('OTS-26: references of an ordinary document are within the limits', () => {
    expect(validate({ ...EMPTY, schemas: chain(12, 2) })).toEqual([])
    expect(validate({ ...EMPTY, schemas: chain(70, 1) })).toEqual([])
  })

  it('OTS-26: refuses documents that are too deep or too large without crashing', () => {
    const deep = `${'{"type":"array","items":'.repeat(100_000)}{"type":"string"}${'}'.repeat(100_000)}`
    const text = `{"opentool":"1.1.0","info":{"title":"t","version":"1"},"functions":[],"schemas":{"D":${deep}}}`
    expect(validate(text).map(({ rule }) => rule)).toEqual(['OTS-26'])
    expect(
      validate(text, { limits: { characters: 100 } }).map(({ path, rule }) => `${path} ${rule}`),
    ).toEqual([' OTS-26'])
    expect(
      validate({ ...EMPTY, functions: [1, 2, 3] }, { limits: { values: 5 } }).map(({ rule }) => rule),
    ).toEqual(['OTS-26'])
    const cycle: Record<string, unknown> = { ...EMPTY }
    cycle['x-self'] = cycle
    expect(validate(cycle).map(({ rule }) => rule)).toEqual(['OTS-26'])
  })

  it('OTS-26: `__proto__` is a name like any other', () => {
    const text = `{"opentool":"1.1.0","info":{"title":"t","version":"1"},"__proto__":{"polluted":1},"functions":[{"name":"f",
      "description":"","parameters":[{"name":"__proto__","schema":{"$ref":"#/schemas/__proto__"},"required":true}]}],
      "schemas":{"__proto__":{"type":"object","properties":{"__proto__":{"type":"string"}},"required":["__proto__"]}}}`
    expect(validate(text)).toEqual([])
    const plain = dereference(load(text))
    expect(JSON.parse(serialize(plain))).toEqual(
      JSON.parse(
        text.replace(
          '{"$ref":"#/schemas/__proto__"}',
          '{"type":"object","properties":{"__proto__":{"type":"string"}},"required":["__proto__"]}',
        ),
      ),
    )
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false)
  })

  it('OTS-26: reads 100 000 functions in seconds, and limits the list of 300 000 findings', () => {
    const schemas = { A: { type: 'object', properties: { a: { type: 'string' } } } }
    const parameters = [{ name: 'p', description: 'd', schema: { $ref: '#/schemas/A' }, required: true }]
    const functions = Array.from({ length: 100_000 }, (_, index) => ({
      name: `f${index}`,
      description: 'd',
      parameters,
    }))
    const started = process.cpuUsage()
    const plain = dereference(load(JSON.stringify({ ...EMPTY, functions, schemas })))
    expect(plain.functions).toHaveLength(100_000)
    const wrong = validate({ ...EMPTY, functions: functions.map(() => ({})) }, { mode: 'lenient' })
    expect(wrong).toHaveLength(100_001)
    expect(wrong.at(-1)).toMatchObject({ path: '', rule: 'OTS-26', level: 'error' })
    expect(cpuMsSince(started)).toBeLessThan(10_000)
  })

  it('OTS-21: throws for a document that was not loaded', () => {
    const document: OpenToolDocument = { ...EMPTY, schemas: { A: { $ref: '#/schemas/B' } } }
    expect(() => dereference(document)).toThrow(OpenToolDocumentError)
  })
})
