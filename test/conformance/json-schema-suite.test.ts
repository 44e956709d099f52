import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { checkSchema } from '#schema/check'
import { readImportedSchema } from '#schema/imported'
import { upgradeSchema } from '#schema/upgrade'
import { createSchemaValidator } from '#schema/validator'

/**
 * The part of the JSON-Schema-Test-Suite in the registry: draft 4, which servers still use and which is converted to
 * 2020-12 here. Newer keywords are compared with Ajv in `src/schema/validator.ajv.test.ts`.
 */
const DRAFT_4 = 'http://json-schema.org/draft-04/schema#'
const FOLDER = join(
  dirname(createRequire(import.meta.url).resolve('json-schema-test-suite/package.json')),
  'tests/draft4',
)

/** Verdicts that differ from the suite, with the reason. A row that no longer applies fails the test below. */
const ELSEWHERE = 'Schemas stand alone: nothing is fetched to read one.'
const FORMAT = '`format` is an annotation (OTC/T-18).'
const DIFFERENCES: Readonly<Record<string, string>> = {
  'definitions.json: invalid definition': ELSEWHERE,
  'ref.json: remote ref, containing refs itself': ELSEWHERE,
  'refRemote.json: remote ref': ELSEWHERE,
  'refRemote.json: fragment within remote ref': ELSEWHERE,
  'refRemote.json: ref within remote ref': ELSEWHERE,
  'refRemote.json: change resolution scope': ELSEWHERE,
  'optional/format.json: validation of date-time strings': FORMAT,
  'optional/format.json: validation of URIs': FORMAT,
  'optional/format.json: validation of e-mail addresses': FORMAT,
  'optional/format.json: validation of IP addresses': FORMAT,
  'optional/format.json: validation of IPv6 addresses': FORMAT,
  'optional/format.json: validation of host names': FORMAT,
  'optional/zeroTerminatedFloats.json: some languages do not distinguish between different types of numeric value':
    '1.0 is an integer since draft 6, and the same number in JSON.',
  'ref.json: escaped pointer ref':
    'A reference leads to where a schema stands, not into keywords that are unknown.',
}

/** Importing refuses a reference to another document; the validator itself relies on the check of authored schemas. */
const IMPORT_DIFFERENCES = { 'definitions.json: valid definition': ELSEWHERE }

/** Patterns of authored schemas run on the native engine, those of imported ones in linear time. */
type Engine = 'native' | 'linear'
type Validate = (value: JsonValue) => readonly unknown[]

const GROUPS = z.array(
  z.object({
    description: z.string(),
    schema: z.record(z.string(), z.json()),
    tests: z.array(z.object({ description: z.string(), data: z.json(), valid: z.boolean() })),
  }),
)

describe.each<Engine>(['native', 'linear'])(
  'the JSON-Schema-Test-Suite, patterns by the %s engine',
  (engine) => {
    const expected: Readonly<Record<string, string>> =
      engine === 'native' ? DIFFERENCES : { ...DIFFERENCES, ...IMPORT_DIFFERENCES }
    const seen = new Set<string>()

    it.each(suiteFiles())('%s', (file) => {
      const groups = GROUPS.parse(JSON.parse(readFileSync(join(FOLDER, file), 'utf8')))
      expect(groups.length).toBeGreaterThan(0)
      for (const { description, schema, tests } of groups) {
        const name = `${file}: ${description}`
        const validate = ENGINES[engine]({ $schema: DRAFT_4, ...schema })
        const wrong = tests.filter(({ data, valid }) => verdict(validate, data) !== valid)
        if (wrong.length > 0) seen.add(name)
        if (expected[name] === undefined) expect(wrong, name).toEqual([])
      }
    })

    it('lists no difference that no longer applies', () => {
      expect([...seen].sort()).toEqual(Object.keys(expected).sort())
    })
  },
)

const ENGINES: Readonly<Record<Engine, (schema: JsonObject) => Validate | undefined>> = {
  native(schema) {
    const upgraded = upgradeSchema(schema)
    const isSound = checkSchema(upgraded, '', () => undefined, { references: 'allowed' })
    return isSound ? createSchemaValidator(upgraded) : undefined
  },
  linear(schema) {
    const read = readImportedSchema(
      schema,
      'output',
      () => undefined,
      () => undefined,
    )
    return read && createSchemaValidator(read.enforced(), { untrusted: true })
  },
}

/** True if the value is valid; `undefined` if the schema is refused. */
function verdict(validate: Validate | undefined, value: JsonValue): boolean | undefined {
  try {
    return validate && validate(value).length === 0
  } catch {
    return undefined
  }
}

function suiteFiles(): readonly string[] {
  const optional = readdirSync(join(FOLDER, 'optional')).map((name) => `optional/${name}`)
  return [...readdirSync(FOLDER), ...optional].filter((name) => name.endsWith('.json'))
}
