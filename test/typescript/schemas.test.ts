import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { type NamedTool, writeToolTypes } from '#typescript/tool-types'
import { sized } from '../size.ts'
import { compile } from './compile.ts'
import { candidates, randomFrom } from './valid-values.ts'

/** Generated schemas: the file compiles, and values that a validator accepts have the type. */

const SCHEMAS = sized(250, 2_000)
const LIMIT_MS = 180_000

const HOSTILE = [
  '*/ export const broken: = 1 /*',
  '@ts-expect-error',
  '@ts-ignore\n@ts-nocheck',
  '/// <reference path="x" />',
  '`$' + `{x}\` " ' \\`,
  '\u2028\u2029\u202e\u0000\u200b',
  '\ud800',
  '*',
  '/',
  'line\r\n * */\n@deprecated',
]
const text = fc.oneof(fc.constantFrom(...HOSTILE), fc.string({ maxLength: 12, unit: 'binary' }))
const name = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom('a', 'b', 'c', 'kebab-name', 'class', '1', '', 'Größe') },
  { weight: 1, arbitrary: text.filter((each) => each !== '__proto__' && each.isWellFormed()) },
)
const value: fc.Arbitrary<JsonValue> = fc.oneof(
  fc.constantFrom<JsonValue>(null, true, false, 0, -1, 1.5, 1e21, 'x', 'y', '*/', '', [1, 'x'], { a: 'x' }),
  text.filter((each) => each.isWellFormed()),
)

const { schema } = fc.letrec<{ schema: JsonValue }>((tie) => {
  const inner = tie('schema')
  const members = fc.dictionary(name, inner, { maxKeys: 4 })
  const some = fc.array(inner, { minLength: 1, maxLength: 3 })
  const required = fc.uniqueArray(name, { maxLength: 2 })
  const object = fc.record(
    {
      type: fc.constantFrom<JsonValue>('object', ['object', 'null']),
      properties: members,
      required,
      additionalProperties: fc.oneof(fc.boolean(), inner),
      patternProperties: fc.dictionary(fc.constantFrom('^x-', '[0-9]$'), inner, { maxKeys: 1 }),
      description: text,
      title: text,
    },
    { requiredKeys: ['type'] },
  )
  const list = fc.record(
    {
      type: fc.constant('array'),
      items: inner,
      prefixItems: some,
      minItems: fc.nat(2),
      maxItems: fc.integer({ min: 2, max: 4 }),
    },
    { requiredKeys: ['type'] },
  )
  const plain = fc.record(
    {
      type: fc.constantFrom<JsonValue>('string', 'number', 'integer', 'boolean', 'null', ['string', 'null']),
      default: value,
      deprecated: fc.boolean(),
      description: text,
      nullable: fc.boolean(),
    },
    { requiredKeys: ['type'] },
  )
  const composed = fc.oneof(
    fc.record({ anyOf: some, description: text }),
    fc.record({ oneOf: some }),
    fc.record({ allOf: some }),
    fc.record({
      type: fc.constant('object'),
      properties: members,
      anyOf: fc.array(fc.record({ required }), { minLength: 1, maxLength: 3 }),
    }),
    fc.record({ type: fc.constant('object'), properties: members, required, allOf: some }),
    fc.record({ $ref: fc.constantFrom('#/$defs/a', '#/$defs/b', '#', '#/$defs/gone') }),
    fc.record({ $ref: fc.constantFrom('#/$defs/a', '#/$defs/b'), properties: members }),
  )
  const values = fc.oneof(
    fc.record({ enum: fc.array(value, { minLength: 1, maxLength: 4 }) }),
    fc.record({ const: value }),
  )
  return {
    schema: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      plain,
      values,
      object,
      list,
      composed,
      fc.constantFrom<JsonValue>({}, true, false),
    ),
  }
})

const document = fc
  .tuple(schema, fc.record({ a: schema, b: schema }))
  .map(([root, $defs]): JsonObject => ({ ...(isJsonObject(root) ? root : {}), $defs }))

/** Compiles once: that takes longer than all the checks. Schemas that only refer to themselves accept nothing here. */
function validatorOf(written: JsonObject): (found: JsonValue) => boolean {
  const attempt = <Result>(work: () => Result): Result | undefined => {
    try {
      return work()
    } catch {
      return undefined
    }
  }
  const validate = attempt(() =>
    new Ajv2020({ strict: false, validateFormats: false, logger: false }).compile(written),
  )
  return (found) => attempt(() => validate?.(found)) === true
}

function toolOf(index: number, output: JsonObject, description = ''): NamedTool {
  const tool = { id: `T.t${index}@1.0.0`, description, input: {}, output }
  return { tool, name: `T.t${index}`, others: [tool.id] }
}

describe('types of generated schemas', () => {
  it(
    'compile, and accept every valid value',
    () => {
      const documents = fc.sample(document, SCHEMAS)
      const { text: file } = writeToolTypes(
        documents.map((each, index) => toolOf(index, each, HOSTILE[index % 10])),
      )
      let valid = 0
      const checks = documents.flatMap((written, index) =>
        candidates(written, randomFrom(index), 12)
          .filter(validatorOf(written))
          .map((found) => {
            valid += 1
            const source = JSON.stringify(written).replaceAll(/[\u2028\u2029]/g, '?')
            return `// ${source}\nexport const v${valid}: Tools["T.t${index}"]["output"] = ${JSON.stringify(found)}\n`
          }),
      )
      expect(valid).toBeGreaterThan(2 * SCHEMAS)
      const use = `import type { Tools } from './tools.js'\n${checks.join('')}`
      expect(compile({ 'tools.d.ts': file, 'use.ts': use })).toBe('')
    },
    LIMIT_MS,
  )
})
