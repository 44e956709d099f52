import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isToolError } from '#kernel/base/errors'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import { checkSchema } from '#schema/check'
import { readBinding } from '#sources/openapi/binding'
import { type ImportedApi, importApi } from './imported-api.ts'

const EXAMPLES = resolve(import.meta.dirname, '../../../node_modules/@readme/oas-examples')
const DOCUMENTS = [
  '3.0/json/petstore.json',
  '3.1/json/train-travel.json',
  '2.0/json/petstore.json',
  '3.0/json/security.json',
  '3.0/json/file-uploads.json',
].map((path): JsonValue => JSON.parse(readFileSync(resolve(EXAMPLES, path), 'utf8')))

/** Replaces the value at one position, chosen by a list of numbers. */
function replaceAt(value: JsonValue, steps: readonly number[], other: JsonValue): JsonValue {
  const [step, ...rest] = steps
  const keys = typeof value === 'object' && value !== null ? Object.keys(value) : []
  const key = step === undefined ? undefined : keys[step % keys.length]
  if (key === undefined) return other
  const copy: JsonValue = JSON.parse(JSON.stringify(value))
  if (Array.isArray(copy))
    return copy.map((item, at) => (String(at) === key ? replaceAt(item, rest, other) : item))
  if (!isJsonObject(copy)) return other
  return Object.fromEntries(
    Object.entries(copy).map(([name, item]) => [name, name === key ? replaceAt(item, rest, other) : item]),
  )
}

const OTHER = fc.oneof(
  fc.constantFrom<JsonValue>(
    null,
    true,
    0,
    -1,
    '',
    'x',
    '#',
    '#/',
    '#/paths',
    '#/components',
    '{}',
    '\uD800',
    [],
    [[]],
    {},
    [null],
    {
      $ref: '#',
    },
  ),
  fc.jsonValue().map((value): JsonValue => JSON.parse(JSON.stringify(value))),
)

describe('documents with an error anywhere', () => {
  it('are refused with a reason, or result in valid tools', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...DOCUMENTS),
        fc.array(fc.tuple(fc.array(fc.nat(50), { minLength: 1, maxLength: 9 }), OTHER), {
          minLength: 1,
          maxLength: 4,
        }),
        async (document, changes) => {
          const broken = changes.reduce((value, [steps, other]) => replaceAt(value, steps, other), document)
          const written = isJsonObject(broken) ? broken : { openapi: broken }
          const api = await importApi(written, { baseUrl: 'https://api.example.com' }).catch(
            (error: unknown) => {
              if (!isToolError(error)) throw error
              expect(error.code).toBe('upstream_failed')
            },
          )
          if (api !== undefined) await check(api)
        },
      ),
      { numRuns: 150 },
    )
  })
})

async function check({ discovery, close }: ImportedApi): Promise<void> {
  await close()
  for (const { nativeName, description, inputSchema, outputSchema, binding } of discovery.tools) {
    const problems: string[] = []
    const report = (where: string, problem: string) =>
      void problems.push(`${nativeName} ${where}: ${problem}`)
    checkSchema(inputSchema, 'input', report, { references: 'allowed' })
    if (outputSchema !== null) checkSchema(outputSchema, 'output', report, { references: 'allowed' })
    expect(problems).toEqual([])
    expect(description.trim()).not.toBe('')
    expect(readBinding(binding).baseUrl).toBe('https://api.example.com')
  }
}
