import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { OpenToolDocumentError } from './codec-document.ts'
import { load, readDocument, validate } from './codec-document-read.ts'

const ROOT = { opentool: '1.1.0', info: { title: 't', version: '1.0.0' } }

function documentWith(...functions: JsonValue[]): JsonObject {
  return { ...ROOT, functions }
}

function functionWith(changes: JsonObject): JsonObject {
  return { name: 'f', description: 'd', parameters: [], ...changes }
}

/** A document whose one function has one parameter with this schema. */
function schemaDocument(schema: JsonValue, schemas: JsonObject = {}): JsonObject {
  return { ...documentWith(functionWith({ parameters: [{ name: 'p', schema, required: true }] })), schemas }
}

const SCHEMA = '/functions/0/parameters/0/schema'

/** Errors and warnings, as `level path rule`. */
function found(input: unknown, mode: 'strict' | 'lenient' = 'strict'): readonly string[] {
  return validate(input, { mode }).map(({ level, path, rule }) => `${level} ${path} ${rule}`)
}

describe('validate', () => {
  it.each<[string, unknown, string]>([
    ['a list', [], 'error  OTS-01'],
    ['null', null, 'error  OTS-01'],
    ['nothing', undefined, 'error  OTS-01'],
    ['a function', () => 1, 'error  OTS-01'],
    ['a date inside', { ...documentWith(), 'x-at': new Date(0) }, 'error /x-at OTS-01'],
  ])('OTS-01: refuses %s', (_what, input, expected) => {
    expect(found(input)).toEqual([expected])
  })

  it.each<[string, unknown, readonly string[]]>([
    ['OTS-02: not x.y.z', { ...documentWith(), opentool: '1.1' }, ['warning /opentool OTS-02']],
    ['OTS-02: a later major', { ...documentWith(), opentool: '2.0.0' }, ['warning /opentool OTS-02']],
    ['OTS-03: no info', { opentool: '1.1.0', functions: [] }, ['error /info OTS-03']],
    ['OTS-03: info is a list', { ...documentWith(), info: [] }, ['error /info OTS-03']],
    ['OTS-03: no title', { ...documentWith(), info: { version: '1' } }, ['error /info/title OTS-03']],
    [
      'OTS-04: a relative URL',
      { ...documentWith(), server: { url: '/opentool' } },
      ['warning /server/url OTS-04'],
    ],
    [
      'OTS-04: another scheme',
      { ...documentWith(), server: { url: 'ftp://a' } },
      ['warning /server/url OTS-04'],
    ],
    ['OTS-05: no functions', ROOT, ['error /functions OTS-05']],
    ['OTS-05: functions as an object', { ...ROOT, functions: {} }, ['error /functions OTS-05']],
    ['OTS-05: a function that is a string', documentWith('f'), ['error /functions/0 OTS-05']],
    [
      'OTS-07: no name',
      documentWith({ description: '', parameters: [] }),
      ['error /functions/0/name OTS-07'],
    ],
    ['OTS-07: a dot', documentWith(functionWith({ name: 'a.b' })), ['error /functions/0/name OTS-07']],
    ['OTS-07: a number', documentWith(functionWith({ name: 1 })), ['error /functions/0/name OTS-07']],
    [
      'OTS-08: a number',
      documentWith(functionWith({ description: 1 })),
      ['error /functions/0/description OTS-08'],
    ],
    ['OTS-10: a text', documentWith(functionWith({ return: 'r' })), ['error /functions/0/return OTS-12']],
    [
      'OTS-12: empty',
      documentWith(functionWith({ return: {} })),
      ['error /functions/0/return/name OTS-12', 'error /functions/0/return/schema OTS-12'],
    ],
    [
      'OTS-11: empty',
      documentWith(functionWith({ parameters: [{}] })),
      ['name', 'schema', 'required'].map((name) => `error /functions/0/parameters/0/${name} OTS-11`),
    ],
    [
      'OTS-11: an empty name',
      documentWith(functionWith({ parameters: [{ name: '', schema: { type: 'string' }, required: true }] })),
      ['error /functions/0/parameters/0/name OTS-11'],
    ],
    [
      'OTS-11: a text',
      documentWith(functionWith({ parameters: ['p'] })),
      ['error /functions/0/parameters/0 OTS-11'],
    ],
    ['OTS-13: several types', schemaDocument({ type: ['string', 'null'] }), [`error ${SCHEMA}/type OTS-13`]],
    ['OTS-13: dynamic', schemaDocument({ type: 'dynamic' }), [`error ${SCHEMA}/type OTS-13`]],
    ['OTS-13: true', schemaDocument(true), [`error ${SCHEMA} OTS-13`]],
    [
      'OTS-13: a tuple',
      schemaDocument({ type: 'array', items: [{ type: 'string' }] }),
      [`error ${SCHEMA}/items OTS-13`],
    ],
    ['OTS-14: no properties', schemaDocument({ type: 'object' }), [`error ${SCHEMA}/properties OTS-14`]],
    [
      'OTS-14: a list',
      schemaDocument({ type: 'object', properties: [] }),
      [`error ${SCHEMA}/properties OTS-14`],
    ],
    ['OTS-16: not a list', schemaDocument({ type: 'string', enum: 'a' }), [`error ${SCHEMA}/enum OTS-16`]],
    [
      'OTS-16: a fraction',
      schemaDocument({ type: 'integer', enum: [1, 1.5] }),
      [`warning ${SCHEMA}/enum OTS-16`, `error ${SCHEMA}/enum/1 OTS-16`],
    ],
    [
      'OTS-16: on an object',
      schemaDocument({ type: 'object', properties: {}, enum: [{}] }),
      [`warning ${SCHEMA}/enum OTS-16`],
    ],
    [
      'OTS-17: undeclared',
      schemaDocument({ type: 'object', properties: {}, required: ['a'] }),
      [`warning ${SCHEMA}/required/0 OTS-17`],
    ],
    [
      'OTS-17: a number',
      schemaDocument({ type: 'object', properties: {}, required: [1] }),
      [`error ${SCHEMA}/required/0 OTS-17`],
    ],
    [
      'OTS-18: a number',
      schemaDocument({ type: 'string', description: 1 }),
      [`error ${SCHEMA}/description OTS-18`],
    ],
    ['OTS-19: a list', { ...documentWith(), schemas: [] }, ['error /schemas OTS-19']],
    [
      'OTS-19: a schema that is null',
      { ...documentWith(), schemas: { A: null } },
      ['error /schemas/A OTS-13'],
    ],
    ['OTS-20: a URL', schemaDocument({ $ref: 'https://x.example/s.json' }), [`error ${SCHEMA}/$ref OTS-20`]],
    ['OTS-20: a number', schemaDocument({ $ref: 1 }), [`error ${SCHEMA}/$ref OTS-20`]],
    [
      'OTS-21: of a prototype',
      schemaDocument({ $ref: '#/schemas/constructor' }),
      [`error ${SCHEMA}/$ref OTS-21`],
    ],
    ['OTS-21: __proto__', schemaDocument({ $ref: '#/schemas/__proto__' }), [`error ${SCHEMA}/$ref OTS-21`]],
    [
      'OTS-21: siblings that validate',
      schemaDocument({ $ref: '#/schemas/A', type: 'integer', 'x-a': 1 }, { A: { type: 'string' } }),
      [`warning ${SCHEMA}/type OTS-21`],
    ],
    [
      'OTS-21: an escape is not decoded',
      schemaDocument({ $ref: '#/schemas/a~1b' }, { 'a/b': { type: 'string' } }),
      [`error ${SCHEMA}/$ref OTS-21`],
    ],
    ['OTS-23: unknown members', { ...documentWith(functionWith({ foo: { $ref: 1 } })), bar: null }, []],
  ])('OTS-02…23: %s', (_title, input, expected) => {
    expect(found(input)).toEqual(expected)
  })

  it('OTS-21: references resolve in their own document, even forward references', () => {
    expect(
      found(schemaDocument({ $ref: '#/schemas/A' }, { A: { $ref: '#/schemas/B' }, B: { type: 'string' } })),
    ).toEqual([])
    expect(found(schemaDocument({ $ref: '#/schemas/B' }))).toEqual([`error ${SCHEMA}/$ref OTS-21`])
  })

  it('OTS-25: reports all findings at once', () => {
    const functions = [{ name: 'a b', parameters: {} }, functionWith({}), functionWith({})]
    expect(found({ opentool: 1, info: {}, functions })).toEqual([
      'error /opentool OTS-02',
      'error /info/title OTS-03',
      'error /info/version OTS-03',
      'error /functions/0/name OTS-07',
      'error /functions/0/description OTS-08',
      'error /functions/0/parameters OTS-09',
      'error /functions/2/name OTS-06',
    ])
  })

  it('OTS-25: never throws, and lenient is never stricter than strict', () => {
    const value = fc.oneof(
      fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true }),
      fc.string(),
      fc.uint8Array(),
      brokenDocument,
    )
    fc.assert(
      fc.property(value, (input) => {
        const strict = validate(input, { mode: 'strict' })
        const lenient = validate(input, { mode: 'lenient' })
        const errors = strict
          .filter(({ level }) => level === 'error')
          .map(({ path, rule }) => `${path} ${rule}`)
        for (const { level, path, rule } of lenient)
          if (level === 'error') expect(errors).toContain(`${path} ${rule}`)
      }),
      { numRuns: 500 },
    )
  })

  it('OTS-25: reports a value that throws when it is read', () => {
    const hostile = Object.defineProperty({}, 'info', {
      enumerable: true,
      get: () => {
        throw new Error('no')
      },
    })
    expect(found(hostile)).toEqual(['error  OTS-01'])
    expect(
      found(
        new Proxy(
          {},
          {
            ownKeys: () => {
              throw new Error('no')
            },
          },
        ),
      ),
    ).toEqual(['error  OTS-01'])
  })
})

/** A document with parts replaced by arbitrary JSON. */
const brokenDocument = fc.record(
  {
    opentool: fc.jsonValue(),
    info: fc.oneof(fc.constant(ROOT.info), fc.jsonValue()),
    schemas: fc.dictionary(
      fc.constantFrom('A', 'B', '__proto__'),
      fc.oneof(fc.constant({ $ref: '#/schemas/A' }), fc.jsonValue()),
    ),
    functions: fc.array(
      fc.record(
        {
          name: fc.oneof(fc.string(), fc.jsonValue()),
          description: fc.jsonValue(),
          parameters: fc.array(
            fc.record({ name: fc.string(), schema: fc.jsonValue(), required: fc.jsonValue() }),
          ),
          return: fc.jsonValue(),
          stream: fc.jsonValue(),
        },
        { requiredKeys: [] },
      ),
    ),
  },
  { requiredKeys: [] },
)

describe('load', () => {
  it('OTS-01: skips a byte order mark, in text and in bytes', () => {
    const text = `\uFEFF${JSON.stringify(documentWith())}`
    expect(load(text)).toEqual(documentWith())
    expect(load(new TextEncoder().encode(text))).toEqual(documentWith())
  })

  it('OTS-01: reports the position of a syntax error, and bytes that are not UTF-8', () => {
    const [finding] = validate('{\n  "opentool": "1.1.0",\n  info: {}\n}')
    expect(finding).toEqual({
      path: '',
      rule: 'OTS-01',
      level: 'error',
      message: 'Not JSON: line 3, column 3 has an unexpected "i".',
      position: { offset: 27, line: 3, column: 3 },
    })
    expect(found(new Uint8Array([0x7b, 0xff, 0x7d]))).toEqual(['error  OTS-01'])
  })

  it('OTS-25: throws one error with all findings', () => {
    try {
      load({ functions: [] })
      expect.unreachable()
    } catch (error) {
      if (!(error instanceof OpenToolDocumentError)) throw error
      expect(error.findings.map(({ path }) => path)).toEqual(['/opentool', '/info'])
      expect(error.message).toContain('/info: `info` is missing; write an object. (OTS-03)')
    }
  })

  it('OTS-06, OTS-08, OTS-09, OTS-11, OTS-14, OTS-15, OTS-16: a lenient reader fills in defaults', () => {
    const parameters = [
      { name: 'a', schema: { type: 'object' } },
      { name: 'b', schema: { type: 'array' } },
      { name: 'c', schema: { type: 'string', enum: [] } },
    ]
    const functions = [{ name: 'f g', parameters }, { name: 'h', description: null }, { name: 'h' }]
    const { document, findings } = readDocument({ ...ROOT, functions }, { mode: 'lenient' })
    expect(document?.functions).toEqual([
      {
        name: 'f g',
        description: '',
        parameters: [
          { name: 'a', schema: { type: 'object', properties: {} }, required: false },
          { name: 'b', schema: { type: 'array' }, required: false },
          { name: 'c', schema: { type: 'string' }, required: false },
        ],
      },
      { name: 'h', description: '', parameters: [] },
    ])
    expect(new Set(findings.map(({ level }) => level))).toEqual(new Set(['warning']))
    expect(new Set(findings.map(({ rule }) => rule))).toEqual(
      new Set(['OTS-06', 'OTS-07', 'OTS-08', 'OTS-09', 'OTS-11', 'OTS-14', 'OTS-15', 'OTS-16']),
    )
  })

  it('OTS-10, OTS-18: leaves out members that are null', () => {
    const text = JSON.stringify({
      ...schemaDocument({ type: 'string', description: null, enum: null, items: null, required: null }),
      server: null,
      schemas: null,
    })
    expect(load(text)).toEqual({
      ...ROOT,
      functions: [functionWith({ parameters: [{ name: 'p', schema: { type: 'string' }, required: true }] })],
    })
  })

  it('OTS-23: keeps unknown members, `x-*` and a valid `stream`; leaves out an invalid one', () => {
    const stream = { data: { name: 't', schema: { type: 'string' } } }
    const written = { ...documentWith(functionWith({ stream, 'x-cost': 1 })), 'x-team': ['a'], legacy: true }
    expect(load(written)).toEqual(written)
    const broken = documentWith(
      functionWith({ stream: { data: { name: 't', schema: { $ref: '#/schemas/No' } } } }),
    )
    expect(found(broken)).toEqual(['warning /functions/0/stream OTS-23'])
    expect(load(broken)).toEqual(documentWith(functionWith({})))
  })
})
