import { readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { expect } from 'vitest'
import { z } from 'zod'
import type { JsonObject, JsonValue } from '#kernel/base/json'
import { fromJsonSchema } from '#protocols/opentool/codec-convert-from-json'
import { type ConversionMode, SchemaConversionError } from '#protocols/opentool/codec-convert-shape'
import { legalName } from '#protocols/opentool/codec-convert-tools'
import type { DocumentFinding, OpenToolParameter } from '#protocols/opentool/codec-document'
import { load, serialize, validate } from '#protocols/opentool/codec-document-read'
import { dereference } from '#protocols/opentool/codec-document-references'
import { toJsonSchema } from '#protocols/opentool/codec-to-json-schema'

const json: z.ZodType<JsonValue> = z.json()
const verdict = z.enum(['valid', 'invalid'])
const pairs = z.array(z.tuple([z.string(), z.string()]))

const documentShape = z.looseObject({
  id: z.string(),
  kind: z.literal('document'),
  doc: json,
  expect: z.strictObject({ strict: verdict, lenient: verdict, errors: pairs, warnings: pairs }),
  why: z.string(),
})

const convertShape = z.looseObject({
  id: z.string(),
  kind: z.literal('convert'),
  rule: z.string(),
  direction: z.enum(['opentool->jsonschema', 'jsonschema->opentool']),
  input: json,
  output: json,
  losses: pairs,
  accept: z.array(json),
  why: z.string(),
})

const nameShape = z.looseObject({
  id: z.string(),
  kind: z.literal('name'),
  rule: z.string(),
  input: z.string(),
  output: z.string(),
  why: z.string(),
})

const vectorShape = z.discriminatedUnion('kind', [documentShape, convertShape, nameShape])
export type DocumentVector = z.infer<typeof vectorShape>

/** The vectors that need no server: documents (D), conversions (X) and names (N). */
export function readDocumentVectors(file: URL): readonly DocumentVector[] {
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  const kinds = z.object({ kind: z.string() })
  return lines
    .map((line): unknown => JSON.parse(line))
    .filter((line) => ['document', 'convert', 'name'].includes(kinds.parse(line).kind))
    .map((line) => vectorShape.parse(line))
}

export function checkDocumentVector(vector: DocumentVector): void {
  if (vector.kind === 'document') checkDocument(vector)
  else if (vector.kind === 'name') expect(legalName(vector.input)).toBe(vector.output)
  else if (vector.direction === 'opentool->jsonschema') checkToJsonSchema(vector)
  else checkFromJsonSchema(vector)
}

function checkDocument({ doc, expect: expected }: z.infer<typeof documentShape>): void {
  const strict = validate(doc, { mode: 'strict' })
  expect(locationsOf(strict, 'error')).toEqual(expected.errors)
  expect(locationsOf(strict, 'warning')).toEqual(expected.warnings)
  expect(verdictOf(strict)).toBe(expected.strict)
  const lenient = validate(doc, { mode: 'lenient' })
  expect(verdictOf(lenient)).toBe(expected.lenient)
  // Every error in strict mode is at least reported in lenient mode.
  expect(lenient.map(({ path, rule }) => [path, rule])).toEqual(expect.arrayContaining(expected.errors))
  for (const mode of ['strict', 'lenient'] as const) {
    if (expected[mode] === 'invalid')
      expect(() => load(JSON.stringify(doc), { mode })).toThrow('OpenTool document')
    else checkRoundTrip(JSON.stringify(doc), mode)
  }
}

function checkRoundTrip(text: string, mode: 'strict' | 'lenient'): void {
  const loaded = load(text, { mode })
  expect(load(serialize(loaded), { mode })).toEqual(loaded)
  const plain = dereference(loaded)
  expect(serialize(plain)).not.toContain('$ref')
  expect(load(serialize(plain), { mode })).toEqual(plain)
}

function locationsOf(findings: readonly DocumentFinding[], level: DocumentFinding['level']) {
  return findings.filter((finding) => finding.level === level).map(({ path, rule }) => [path, rule])
}

function verdictOf(findings: readonly DocumentFinding[]): z.infer<typeof verdict> {
  return findings.some(({ level }) => level === 'error') ? 'invalid' : 'valid'
}

type ConvertVector = z.infer<typeof convertShape>

function checkToJsonSchema({ input, output, accept }: ConvertVector): void {
  const document = { opentool: '1.1.0', info: { title: 't', version: '1' }, functions: [input] }
  const [written] = load(document).functions
  if (written === undefined) throw new Error('the document has no function')
  const { input: schema } = toJsonSchema(written)
  expect(schema).toEqual(output)
  for (const instance of accept) expectAccepted(schema, instance)
  const back = fromJsonSchema(schema, { mode: 'strict' })
  expect(back.losses).toEqual([])
  expect(toJsonSchema(back).input).toEqual(schema)
}

/** Rows of OTS-83 name both modes; the others show the result of `lossy`. */
function checkFromJsonSchema(vector: ConvertVector): void {
  const refusal = z.object({ error: z.string(), lossy: json.optional() }).safeParse(vector.output)
  if (refusal.success) expect(convert(vector, 'strict').error?.rule).toBe(refusal.data.error)
  const { parameters, losses } = convert(vector, 'lossy')
  expect(losses).toEqual(vector.losses)
  const expected = refusal.success ? refusal.data.lossy : vector.output
  expect(parameters).toEqual(expected)
  if (parameters === undefined) return
  expectStrictlyValid(parameters)
  for (const instance of vector.accept) expectAccepted(toJsonSchema({ parameters }).input, instance)
}

function convert({ input }: ConvertVector, mode: ConversionMode) {
  try {
    const { parameters, losses } = fromJsonSchema(input, { mode })
    return { parameters, losses: losses.map(({ pointer, severity }) => [pointer, severity]) }
  } catch (error) {
    if (!(error instanceof SchemaConversionError)) throw error
    return { error, losses: error.losses.map(({ pointer, severity }) => [pointer, severity]) }
  }
}

/** OTS-83: never a document that fails strict validation. */
export function expectStrictlyValid(parameters: readonly OpenToolParameter[]): void {
  const functions = [{ name: 'f', description: '', parameters }]
  const findings = validate({ opentool: '1.1.0', info: { title: 't', version: '1' }, functions })
  expect(findings.filter(({ level }) => level === 'error')).toEqual([])
}

function expectAccepted(schema: JsonObject, instance: JsonValue): void {
  const accepts = new Ajv2020({ strict: false, validateFormats: false }).compile(schema)
  expect({ instance, accepted: accepts(instance) }).toEqual({ instance, accepted: true })
}
