import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { type NamedTool, writeToolTypes } from './tool-types.ts'

function named(output: JsonObject | 'any' | 'none', changes: Partial<NamedTool['tool']> = {}): NamedTool {
  return {
    tool: { id: 'T.A@1.0.0', description: '', input: {}, output, ...changes },
    name: 'T.A',
    others: [],
  }
}

/** The type of an output, as it stands in the file. */
function typeOf(output: JsonObject | 'any' | 'none'): string {
  const { text } = writeToolTypes([named(output)])
  return /\n {4}output: ([\s\S]*?);\n {2}};\n/.exec(text)?.[1] ?? text
}

const object = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({
  type: 'object',
  properties,
  ...more,
})
const text = { type: 'string' }
const number = { type: 'number' }

describe('the type of a schema', () => {
  const CASES: readonly (readonly [string, JsonObject | 'any' | 'none', string])[] = [
    ['no output', 'none', 'null'],
    ['an undeclared output', 'any', 'JsonValue'],
    ['any value', {}, 'JsonValue'],
    ['an integer', { type: 'integer' }, 'number'],
    ['several types', { type: ['string', 'null'] }, 'string | null'],
    ['nullable', { type: 'string', nullable: true }, 'string | null'],
    ['an enum of its type', { type: 'string', enum: ['a', 'b"', 1] }, '"a" | "b\\""'],
    ['a constant object', { const: { a: [1, null] } }, '{ a: [1, null] }'],
    ['any object', { type: 'object' }, 'JsonObject'],
    ['an empty closed object', { type: 'object', additionalProperties: false }, '{ [name: string]: never }'],
    ['a map', { type: 'object', additionalProperties: number }, '{ [name: string]: number }'],
    [
      'optional members, whether or not they have defaults',
      object({ a: { type: 'string', enum: ['x'] }, 'b-c': number }, { required: ['a'] }),
      '{ a: "x"; "b-c"?: number }',
    ],
    [
      'members that fit the type of the others',
      object({ a: text }, { additionalProperties: number }),
      '{ a?: string; [name: string]: number | string | undefined }',
    ],
    [
      'members that do not fit it',
      object({ a: object({ b: text }) }, { additionalProperties: number }),
      '{ a?: { b?: string }; [name: string]: unknown }',
    ],
    ['patterns', { type: 'object', patternProperties: { '^x-': text } }, '{ [name: string]: string }'],
    [
      'a list of alternatives',
      { type: 'array', items: { type: ['string', 'number'] } },
      '(string | number)[]',
    ],
    [
      'a tuple',
      { type: 'array', prefixItems: [text, number], minItems: 1, items: { type: 'boolean' } },
      '[string, number?, ...boolean[]]',
    ],
    ['a closed tuple', { type: 'array', prefixItems: [text], minItems: 1, items: false }, '[string]'],
    ['alternatives', { anyOf: [text, { type: 'string', const: 'x' }, { type: 'null' }] }, 'string | null'],
    [
      'parts that belong together',
      { allOf: [object({ a: text }), object({ b: number }, { required: ['b'] }), { required: ['a'] }] },
      '{ a: string; b: number }',
    ],
    [
      'alternative requirements',
      object({ a: text, b: number }, { anyOf: [{ required: ['a'] }, { required: ['b'] }] }),
      '{ a: string; b?: number } | { a?: string; b: number }',
    ],
    ['both booleans', { enum: [true, false] }, 'boolean'],
    ['a reference', { $defs: { a: text }, type: 'array', items: { $ref: '#/$defs/a' } }, 'string[]'],
    ['nothing', { anyOf: [false] }, 'never'],
  ]
  it.each(CASES)('%s', (_title, schema, expected) => {
    expect(typeOf(schema)).toBe(expected)
  })

  it('names a schema that contains itself', () => {
    const node = object({ next: { $ref: '#/$defs/node' } })
    const { text: file } = writeToolTypes([named({ $defs: { node }, $ref: '#/$defs/node' })])
    expect(file).toContain('output: TANode;')
    expect(file).toContain('type TANode = { next?: TANode };')
  })

  it('widens a schema that is nothing but itself', () => {
    const { text: file, widened } = writeToolTypes([named({ anyOf: [{ $ref: '#' }, text] })])
    expect(widened).toEqual([{ tool: 'T.A', parts: [{ path: 'Root', why: 'it refers to itself' }] }])
    expect(file).toContain('/** Accepts more than the schema at Root: it refers to itself. */')
  })
})

describe('the file', () => {
  it('keeps descriptions inside comments', () => {
    const description = 'End: */ export\n@ts-expect-error\n\u202ereversed'
    const { text: file } = writeToolTypes([
      named(object({ a: { ...text, description, default: '*/' } }), { description }),
    ])
    expect(file).toContain(
      '  /**\n   * End: *\\/ export\n   * \\@ts-expect-error\n   * \\u202ereversed\n   */\n',
    )
    expect(file).toContain('@default "*\\/"')
  })

  it('does not depend on the order of the tools', () => {
    const user = object(
      { login: text, id: number, kind: { enum: ['one', 'two', 'three'] } },
      { title: 'Simple user' },
    )
    const tools = ['C.C', 'B.B', 'A.A'].map((name) => ({ ...named(user), name, others: [`${name}@1.0.0`] }))
    const { text: file } = writeToolTypes(tools)
    expect(writeToolTypes(tools.toReversed()).text).toBe(file)
    expect(file.match(/output: SimpleUser;/g)).toHaveLength(3)
    expect(file.match(/type SimpleUser =/g)).toHaveLength(1)
  })

  it('names different types with one title differently, whatever other tools there are', () => {
    const shape = (name: string) =>
      object({ [name]: text, long_enough_to_be_declared_once: text, another_member: text }, { title: 'User' })
    const twice = (name: string) => named(object({ first: shape(name), second: shape(name) }))
    const tools = ['a', 'b', 'c'].map((name) => ({ ...twice(name), name }))
    const namesIn = (file: string) => [...file.matchAll(/^type (User\w*) =/gm)].map(([, name]) => name)
    const three = namesIn(writeToolTypes(tools).text)
    expect(new Set(three).size).toBe(3)
    expect(three).toEqual(expect.arrayContaining(namesIn(writeToolTypes(tools.slice(0, 2)).text)))
  })

  it('stays small where a schema doubles at each level', () => {
    const $defs = Object.fromEntries(
      Array.from({ length: 30 }, (_, level) => {
        const next = { $ref: `#/$defs/l${level + 1}` }
        return [`l${level}`, { type: 'array', prefixItems: [next, next], minItems: 2, items: false }]
      }),
    )
    const { text: file } = writeToolTypes([named({ $defs: { ...$defs, l30: text }, $ref: '#/$defs/l0' })])
    expect(file.length).toBeLessThan(10_000)
  })

  it('truncates schemas that are too deep, too many or too large, and marks the places', () => {
    const deep = Array.from({ length: 60 }).reduce<JsonObject>((inner) => object({ a: inner }), text)
    const many = object(Object.fromEntries(Array.from({ length: 11_000 }, (_, n) => [`m${n}`, text])))
    const choices = { enum: Array.from({ length: 600 }, (_, n) => `choice ${n}`) }
    const { text: file, widened } = writeToolTypes([
      { ...named(deep), name: 'Deep' },
      { ...named(many), name: 'Many' },
      { ...named(choices), name: 'Choices' },
    ])
    expect(widened.map(({ tool, parts }) => [tool, parts[0]?.why])).toEqual([
      ['Choices', 'more than 500 alternatives'],
      ['Deep', 'more than 40 levels'],
      ['Many', 'more than 10000 schemas'],
    ])
    expect(file).toContain('Accepts more than the schema at 996 more places.')
    expect(file).toMatch(/Choices: \{\n {4}names: never;\n {4}input: JsonObject;\n {4}output: string;/)
  })
})
