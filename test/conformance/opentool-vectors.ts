import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import type { VectorRequest, VectorResponse } from './otc-vectors.ts'

const expectShape = z.strictObject({
  status: z.number(),
  json: z.unknown().optional(),
  exact: z.unknown().optional(),
  contentType: z.string().optional(),
  header: z.record(z.string(), z.string()).default({}),
  resultLength: z.record(z.string(), z.number()).default({}),
  /** The body holds no `$ref` anywhere. */
  noRef: z.boolean().default(false),
})

const vectorShape = z.strictObject({
  id: z.string(),
  kind: z.literal('http'),
  server: z.enum(['open', 'secured', 'noload']),
  rule: z.string(),
  request: z.strictObject({
    method: z.string(),
    path: z.string(),
    headers: z.record(z.string(), z.string()).default({}),
    body: z.unknown().optional(),
    raw: z.string().optional(),
    bodyGen: z.object({ method: z.string(), key: z.string(), repeat: z.number() }).optional(),
  }),
  expect: expectShape,
  why: z.string(),
  basis: z.string(),
  sdk_ts: z.unknown(),
})

export type OpentoolVector = z.infer<typeof vectorShape>
export type OpentoolServer = OpentoolVector['server']

/** The lines of one kind of `vectors/opentool.jsonl`. */
export function readOpentoolLines(kind: string): readonly unknown[] {
  return readFileSync(new URL('../../vectors/opentool.jsonl', import.meta.url), 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line): unknown => JSON.parse(line))
    .filter((line) => z.object({ kind: z.string() }).parse(line).kind === kind)
}

export function readHttpVectors(): readonly OpentoolVector[] {
  return readOpentoolLines('http').map((line) => vectorShape.parse(line))
}

export function requestOf({ request }: OpentoolVector): VectorRequest {
  const { method, path, headers, body, raw, bodyGen } = request
  const generated =
    bodyGen === undefined
      ? undefined
      : {
          jsonrpc: '2.0',
          method: bodyGen.method,
          params: { [bodyGen.key]: 'x'.repeat(bodyGen.repeat) },
          id: 'g1',
        }
  const sent = body ?? generated
  return { method, path, headers, body: raw ?? (sent === undefined ? undefined : JSON.stringify(sent)) }
}

/** Differences from the expectation of the vector; empty when it passes. */
export function findDifferences(
  { expect }: OpentoolVector,
  { status, headers, text }: VectorResponse,
): readonly string[] {
  const json: unknown = text === '' ? undefined : JSON.parse(text)
  const found: string[] = []
  const note = (holds: boolean, what: string) => {
    if (!holds) found.push(`${what}; answer: ${status} ${text.slice(0, 300)}`)
  }
  note(status === expect.status, `status ${expect.status}`)
  note(expect.json === undefined || contains(json, expect.json), `json ${JSON.stringify(expect.json)}`)
  note(
    expect.exact === undefined || isDeepStrictEqual(json, expect.exact),
    `exactly ${JSON.stringify(expect.exact)}`,
  )
  note(headers['content-type'] === 'application/json; charset=utf-8', 'content type of OTS-42')
  note(
    expect.contentType === undefined || (headers['content-type'] ?? '').includes(expect.contentType),
    'content type',
  )
  for (const [name, value] of Object.entries(expect.header))
    note(headers[name] === value, `${name}: ${value}`)
  for (const [name, length] of Object.entries(expect.resultLength)) {
    const result = z.object({ result: z.record(z.string(), z.string()) }).parse(json)
    note(result.result[name]?.length === length, `${name} of ${length} characters`)
  }
  note(!expect.noRef || !text.includes('"$ref"'), 'no $ref')
  return found
}

/** Whether every member of `wanted` is present, at every depth; further members are allowed. */
function contains(actual: unknown, wanted: unknown): boolean {
  if (typeof wanted !== 'object' || wanted === null || Array.isArray(wanted))
    return isDeepStrictEqual(actual, wanted)
  if (typeof actual !== 'object' || actual === null) return false
  const isEmptied = Object.keys(wanted).length === 0 || Object.keys(actual).length > 0
  return (
    isEmptied &&
    Object.entries(wanted).every(
      ([name, value]) => Object.hasOwn(actual, name) && contains(Reflect.get(actual, name), value),
    )
  )
}
