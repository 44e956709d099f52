import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { JWT_KINDS, vectorJwt } from './vector-jwt.ts'
import { atPointer, type Found, mismatch } from './vector-match.ts'

export interface VectorRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
}

export interface VectorResponse {
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

/** One server in one of the legend's profiles, without state from other vectors. */
export interface VectorServer {
  send(request: VectorRequest): Promise<VectorResponse>
  /** Tool invocations so far, by full tool id. */
  readonly runs: ReadonlyMap<string, number>
  close(): Promise<void>
}

const runsShape = z.record(z.string(), z.number())
const expectShape = z.strictObject({
  status: z.number(),
  json: z.record(z.string(), z.unknown()).default({}),
  absent: z.array(z.string()).default([]),
  headers: z.record(z.string(), z.unknown()).default({}),
  notContains: z.string().optional(),
  runs: runsShape.optional(),
})
const requestShape = z.strictObject({
  method: z.string(),
  path: z.string(),
  headers: z.record(z.string(), z.string()).default({}),
  body: z.unknown().optional(),
})
const stepShape = z.strictObject({ req: requestShape, expect: expectShape })
const vectorShape = z.strictObject({
  id: z.string(),
  kind: z.literal('server'),
  desc: z.string(),
  basis: z.enum(['spec', 'decision']),
  server: z.string().default('default'),
  req: requestShape.optional(),
  expect: expectShape.optional(),
  steps: z.array(stepShape).optional(),
  parallel: z.boolean().default(false),
  runs: runsShape.optional(),
  refs: z.array(z.string()),
})

export type ServerVector = z.infer<typeof vectorShape>
export type Step = z.infer<typeof stepShape>

interface Answered {
  readonly response: VectorResponse
  readonly json: unknown
}

export function readServerVectors(
  file = new URL('../../vectors/otc.jsonl', import.meta.url),
): ServerVector[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line): unknown => JSON.parse(line))
    .filter((vector) => atPointer(vector, '/kind')?.value === 'server')
    .map((vector) => vectorShape.parse(vector))
}

/** Runs one vector on a fresh server; returns the differences, empty when it passes. */
export async function checkServerVector(
  vector: ServerVector,
  start: (profile: string) => Promise<VectorServer>,
): Promise<readonly string[]> {
  const server = await start(vector.server)
  try {
    const steps = stepsOf(vector)
    const findings = vector.parallel ? await checkAtOnce(steps, server) : await checkInOrder(steps, server)
    return [...findings, ...runFindings(vector.runs, new Map(), server.runs)]
  } finally {
    await server.close()
  }
}

export function stepsOf({ req, expect, steps }: ServerVector): readonly Step[] {
  return steps ?? (req !== undefined && expect !== undefined ? [{ req, expect }] : [])
}

async function checkInOrder(steps: readonly Step[], server: VectorServer): Promise<readonly string[]> {
  const answers: Answered[] = []
  const findings: string[] = []
  for (const [index, step] of steps.entries()) {
    const before = new Map(server.runs)
    answers.push(await ask(step, answers, server))
    findings.push(
      ...stepFindings(step, index, answers),
      ...runFindings(step.expect.runs, before, server.runs),
    )
  }
  return findings
}

async function checkAtOnce(steps: readonly Step[], server: VectorServer): Promise<readonly string[]> {
  const answers = await Promise.all(steps.map((step) => ask(step, [], server)))
  return steps.flatMap((step, index) => stepFindings(step, index, answers))
}

async function ask(step: Step, earlier: readonly Answered[], server: VectorServer): Promise<Answered> {
  const { method, path, headers, body } = fillRequest(step, earlier)
  const hasType = Object.keys(headers).some((name) => name.toLowerCase() === 'content-type')
  const response = await server.send({
    method,
    path,
    headers: body === undefined || hasType ? headers : { ...headers, 'Content-Type': 'application/json' },
    body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
  })
  return { response, json: parseOrUndefined(response.text) }
}

/** A request with the legend's `{{…}}` filled in. */
export function fillRequest({ req }: Step, earlier: readonly Answered[] = []): Step['req'] {
  const text = JSON.stringify(req)
    .replaceAll(/\{\{jwt:([a-z0-9-]+)\}\}/g, (_whole, kind) => vectorJwt(z.enum(JWT_KINDS).parse(kind)))
    .replaceAll(/\{\{step(\d+):([^}]*)\}\}/g, (_whole, step, pointer) =>
      JSON.stringify(String(atPointer(earlier[Number(step)]?.json, String(pointer))?.value)).slice(1, -1),
    )
    .replaceAll(/\{\{header(\d+):([^}]*)\}\}/g, (_whole, step, name) =>
      String(earlier[Number(step)]?.response.headers[String(name)]),
    )
  return requestShape.parse(JSON.parse(text))
}

function stepFindings({ expect }: Step, index: number, answers: readonly Answered[]): readonly string[] {
  const answer = answers[index]
  if (answer === undefined) return [`step ${index} was not answered`]
  const { response, json } = answer
  const findings: string[] = []
  const note = (what: string, why: string | undefined) => {
    if (why !== undefined) findings.push(`step ${index}: ${what} ${why}; answer: ${response.text}`)
  }
  note('status', mismatch({ value: response.status }, expect.status, noStep))
  for (const [pointer, expected] of Object.entries(expect.json)) {
    const sameAs = (step: number) => atPointer(answers[step]?.json, pointer)
    note(pointer, mismatch(atPointer(json, pointer), expected, sameAs))
  }
  for (const pointer of expect.absent) {
    note(pointer, atPointer(json, pointer) === undefined ? undefined : 'is present')
  }
  for (const [name, expected] of Object.entries(expect.headers)) {
    const value = response.headers[name.toLowerCase()]
    note(`header ${name}`, mismatch(value === undefined ? undefined : { value }, expected, noStep))
  }
  const { notContains } = expect
  if (notContains !== undefined && response.text.includes(notContains)) note('body', `has "${notContains}"`)
  return findings
}

function noStep(): Found {
  return undefined
}

/** `runs` is exact: tools it does not name must not have run. */
export function runFindings(
  expected: Readonly<Record<string, number>> | undefined,
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
): readonly string[] {
  if (expected === undefined) return []
  const wanted = new Map(Object.entries(expected))
  return [...new Set([...after.keys(), ...wanted.keys()])].flatMap((tool) => {
    const ran = (after.get(tool) ?? 0) - (before.get(tool) ?? 0)
    const want = wanted.get(tool) ?? 0
    return ran === want ? [] : [`${tool} ran ${ran} times, expected ${want}`]
  })
}

function parseOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
