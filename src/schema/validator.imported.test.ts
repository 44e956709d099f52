import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { prepareTool } from '#kernel/tool/prepare-tool'
import type { Tool } from '#kernel/tool/tool'
import { createSchemaValidator } from './validator.ts'

const checkOf = (schema: JsonObject) => createSchemaValidator(schema, { untrusted: true })

describe('an imported schema', () => {
  it.each<[string, JsonObject, JsonValue, boolean]>([
    [
      'members that alternatives evaluated',
      { anyOf: [{ properties: { a: true } }, { properties: { b: true } }] },
      { a: 1, b: 2 },
      true,
    ],
    [
      'members that no alternative evaluated',
      { anyOf: [{ properties: { a: true } }] },
      { a: 1, b: 2 },
      false,
    ],
    [
      'members that only a failed alternative evaluated',
      { anyOf: [{ properties: { a: false } }, true] },
      { a: 1 },
      false,
    ],
    [
      'members that a reference evaluated',
      { $ref: '#/$defs/d', $defs: { d: { properties: { a: true } } } },
      { a: 1 },
      true,
    ],
    ['members that a negation evaluated', { not: { properties: { a: false } } }, { a: 1 }, false],
    ['members that a pattern evaluated', { allOf: [{ patternProperties: { '^a': true } }] }, { ab: 1 }, true],
    [
      'members that an inner `unevaluatedProperties` evaluated',
      { allOf: [{ unevaluatedProperties: true }] },
      { a: 1 },
      true,
    ],
    ['members that a condition evaluated', { if: { properties: { a: { const: 1 } } } }, { a: 1 }, true],
    ['items of a prefix', { prefixItems: [true] }, [1], true],
    ['items after a prefix', { prefixItems: [true] }, [1, 2], false],
    ['items that `contains` matched', { contains: { const: 2 } }, [2, 2], true],
    ['items that `contains` did not match', { contains: { const: 2 } }, [2, 1], false],
  ])('`unevaluated…` handles %s', (_title, schema, value, fits) => {
    const closed = { ...schema, unevaluatedProperties: false, unevaluatedItems: false }
    expect(checkOf(closed)(value).length === 0).toBe(fits)
  })

  it('accepts 19.99 as a multiple of 0.01, and refuses 0.015', () => {
    const check = checkOf({ multipleOf: 0.01 })
    expect([check(19.99), check(0.07), check(1e21), check(0.015).length]).toEqual([[], [], [], 1])
  })

  it('checks a large valid value: a megabyte of rows, of numbers or of image data', () => {
    const row = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`k${index}`, 'some text']))
    const rows = {
      items: {
        properties: Object.fromEntries(
          Object.keys(row).map((name) => [name, { type: 'string', maxLength: 100 }]),
        ),
        required: Object.keys(row),
        additionalProperties: false,
      },
    }
    const id = '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}$'
    const picture = '^data:image/[a-z]+;base64,[A-Za-z0-9+/]+=*$'
    expect(checkOf(rows)(list(6_000, () => row))).toEqual([])
    expect(checkOf({ items: { type: 'number' } })(list(200_000, Number))).toEqual([])
    expect(checkOf({ items: { pattern: id } })(list(30_000, () => '0123abcd-89ab-4567'))).toEqual([])
    expect(checkOf({ pattern: picture })(`data:image/png;base64,${'QUJD'.repeat(250_000)}`)).toEqual([])
    expect(checkOf({ pattern: picture })(`data:image/png;base64,${'QU,D'.repeat(250_000)}`)).toHaveLength(1)
  })
})

function list<Item extends JsonValue>(length: number, make: (index: number) => Item): Item[] {
  return Array.from({ length }, (_, index) => make(index))
}

/** Letters without a period, so that no engine can cache its states. */
function letters(length: number): string {
  let text = ''
  for (let index = 0, seed = 7; index < length; index += 1) {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
    text += 'abc'[(seed >> 16) % 3]
  }
  return text
}

function nested(levels: number): JsonValue {
  let value: JsonValue = 1
  for (let level = 0; level < levels; level += 1) value = { a: value }
  return value
}

const LEVEL: JsonObject = { type: 'object', properties: { a: { $ref: '#/$defs/level' } } }
const MEMBERS = Object.fromEntries(list(10_000, (index) => [`k${index}`, index]))
const CLOSED: JsonObject = {
  properties: Object.fromEntries(list(3_000, (index) => [`some_property_${index}_x`, {}])),
  additionalProperties: false,
}
const UNKNOWN = Object.fromEntries(list(1_900, (index) => [`same_property_y${index}`, 1]))
const SLOW = '.*a.{40}|.*b.{40}'

const ATTACKS: readonly (readonly [string, JsonObject, JsonValue])[] = [
  [
    '2 000 checks for unique items',
    { allOf: list(2_000, () => ({ uniqueItems: true })) },
    list(60_000, (n) => `value ${n}`),
  ],
  [
    '2 000 checks for unique objects',
    { allOf: list(2_000, () => ({ uniqueItems: true })) },
    list(20_000, (n) => ({ a: n, b: [n] })),
  ],
  [
    '2 000 comparisons',
    { allOf: list(2_000, (n) => ({ not: { const: [n] } })) },
    list(60_000, (n) => `value ${n}`),
  ],
  [
    'one of two references',
    { $ref: '#/$defs/level', $defs: { level: { oneOf: [LEVEL, LEVEL] } } },
    nested(90),
  ],
  [
    'any of two references',
    {
      $ref: '#/$defs/level',
      $defs: {
        level: {
          anyOf: [
            { ...LEVEL, required: ['z'] },
            { ...LEVEL, required: ['y'] },
          ],
        },
      },
    },
    nested(90),
  ],
  [
    'patterns of names',
    { patternProperties: Object.fromEntries(list(100, (n) => [`${SLOW}|z${n}$`, { type: 'number' }])) },
    Object.fromEntries(list(3_000, (n) => [`${letters(30)}${n}`, n])),
  ],
  ['400 patterns', { allOf: list(400, (n) => ({ pattern: `^[a-c]{${n % 20},}.*${n}?$` })) }, letters(50_000)],
  ['a pattern that backtracks', { pattern: '^(a+)+$' }, `${'a'.repeat(100_000)}b`],
  [
    'a pattern with a great many states',
    { items: { pattern: `^(${SLOW}|.*c.{40})$` } },
    list(300, (n) => `${letters(3_000)}${n}`),
  ],
  ['2 000 checks of a long text', { allOf: list(2_000, () => ({ minLength: 1 })) }, letters(600_000)],
  [
    '2 000 checks of all names',
    { allOf: list(2_000, () => ({ minProperties: 1, propertyNames: { minLength: 1 } })) },
    MEMBERS,
  ],
  ['a few thousand alternatives', { anyOf: list(8_000, (n) => ({ const: n, type: 'string' })) }, 'x'],
  [
    'alternatives for every item',
    { items: { anyOf: list(5_000, (n) => ({ const: n })) } },
    list(20_000, () => 'x'),
  ],
  [
    'repeated checks of all members',
    {
      allOf: list(300, () => ({ additionalProperties: {}, unevaluatedProperties: false })),
      unevaluatedProperties: false,
    },
    MEMBERS,
  ],
  [
    'a cycle of references',
    { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } },
    1,
  ],
  [
    'a value nested 5 000 levels',
    { $ref: '#/$defs/a', $defs: { a: { additionalProperties: { $ref: '#/$defs/a' } } } },
    nested(5_000),
  ],
  ['unknown members beside many known ones', CLOSED, UNKNOWN],
  [
    'unknown members in several branches',
    { anyOf: [CLOSED, { ...CLOSED, required: ['z'] }, { ...CLOSED, minProperties: 1 }] },
    UNKNOWN,
  ],
  ['many small repetitions', { allOf: list(500, (n) => ({ pattern: `(x{9}|y{${n}}){9}` })) }, letters(1_000)],
]

/** The least processor time of several runs, because other programs disturb the measurement. */
function leastCpuMs(tries: number, run: (nth: number) => void): number {
  const times = list(tries, (nth) => {
    const before = process.cpuUsage()
    run(nth)
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1_000
  })
  return Math.min(...times)
}

describe('a definition that is built to block the server', () => {
  it.each(ATTACKS)('is accepted, and a check with it ends: %s', (_attack, schema, value) => {
    const rss = process.memoryUsage.rss()
    const input: JsonObject = { type: 'object', properties: { value: schema }, ...definitionsOf(schema) }
    const tools: Tool[] = []
    const importing = leastCpuMs(5, () => tools.push(imported(input)))
    const checking = leastCpuMs(5, (nth) => tools[nth]?.checkInput({ value }))
    expect(importing).toBeLessThan(100)
    expect(checking).toBeLessThan(100)
    expect(process.memoryUsage.rss() - rss).toBeLessThan(200 * 2 ** 20)
  })

  it('costs no more when the upstream returns the value', () => {
    const [, schema, value] = ATTACKS[0] ?? ['', {}, null]
    const tool = imported({}, schema)
    expect(leastCpuMs(5, () => expect(tool.checkOutput(value)).toHaveLength(1))).toBeLessThan(100)
  })

  it.each<[string, JsonObject]>([
    ['50000 values', { enum: list(60_000, Number) }],
    ['200 levels', { const: nested(5_000) }],
    ['4000000 characters', { description: 'x'.repeat(5_000_000) }],
  ])('is refused if it has more than %s', (most, schema) => {
    const prepared = prepare({ type: 'object', properties: { value: schema } })
    expect(prepared.tool !== undefined ? [] : prepared.findings.map(({ problem }) => problem)).toEqual([
      `The schema has more than ${most}.`,
    ])
  })
})

function definitionsOf({ $defs }: JsonObject): JsonObject {
  return $defs === undefined ? {} : { $defs }
}

function prepare(input: JsonObject, output: JsonObject | null = null) {
  const definition = { id: 'A.B@1.0.0', description: 'd', input, output, run: () => undefined }
  return prepareTool(definition, { describeParameters: false, onWarning: () => undefined })
}

function imported(input: JsonObject, output: JsonObject | null = null): Tool {
  const prepared = prepare(input, output)
  if (prepared.tool === undefined) throw new Error('The tool is left out.')
  return prepared.tool
}
