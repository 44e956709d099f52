import { CallFailure, type ClientOptions, type ColletClient, connect } from '#client/index'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import {
  answerOfCall,
  answerOfFailure,
  answerOfList,
  type ClientAnswer,
  expectedKind,
  meaningOf,
  meaningOfAbsence,
} from './client-answer.ts'
import type { ClientMode } from './client-modes.ts'
import { fillRequest, runFindings, type ServerVector, type Step, stepsOf } from './otc-vectors.ts'
import { atPointer, mismatch } from './vector-match.ts'
import type { RunningVectorServer } from './vector-server.ts'

/** Makes the calls of a vector with the client in one mode; returns the differences, empty when it passes. */
export async function playThroughClient(
  vector: ServerVector,
  mode: ClientMode,
  server: RunningVectorServer,
): Promise<readonly string[]> {
  const steps = stepsOf(vector)
  const ask = (step: Step) => askClient(step, mode, server.url)
  if (vector.parallel) {
    const answers = await Promise.all(steps.map(ask))
    const findings = steps.flatMap((_step, index) => compare(vector, { answers, index, mode }))
    return [...findings, ...runFindings(vector.runs, new Map(), server.runs)]
  }
  const answers: ClientAnswer[] = []
  const findings: string[] = []
  for (const [index, step] of steps.entries()) {
    const before = new Map(server.runs)
    answers.push(await ask(step))
    findings.push(
      ...compare(vector, { answers, index, mode }),
      ...runFindings(step.expect.runs, before, server.runs),
    )
  }
  return findings
}

interface Compared {
  readonly answers: readonly ClientAnswer[]
  readonly index: number
  readonly mode: ClientMode
}

function compare(vector: ServerVector, { answers, index, mode }: Compared): readonly string[] {
  const steps = stepsOf(vector)
  const [answer, step] = [answers[index], steps[index]]
  if (answer === undefined || step === undefined) return [`step ${index} was not answered`]
  const { expect } = step
  const { kind, document } = answer
  const wanted = expectedKind(vector.id, steps, index)
  if (kind !== wanted) {
    return [`step ${index}: class is ${kind}, expected ${wanted}: ${JSON.stringify(document)}`]
  }
  const findings: string[] = []
  const note = (what: string, why: string | undefined) => {
    if (why !== undefined) findings.push(`step ${index}: ${what} ${why}: ${JSON.stringify(document)}`)
  }
  for (const [pointer, expected] of Object.entries(expect.json)) {
    const at = meaningOf(pointer)
    if (at === undefined || isUnreported(at, mode)) continue
    const sameAs = (step: number) => atPointer(answers[step]?.document, at)
    note(pointer, mismatch(atPointer(document, at), expected, sameAs))
  }
  for (const pointer of expect.absent) {
    const at = meaningOfAbsence(pointer, expect.status)
    if (at !== undefined && atPointer(document, at) !== undefined) note(pointer, 'is there')
  }
  const { notContains } = expect
  if (notContains !== undefined && JSON.stringify(document).includes(notContains)) {
    note('the answer', `has "${notContains}"`)
  }
  return findings
}

/** Universal tool servers do not report the duration of a run. */
function isUnreported(at: string, { base }: ClientMode): boolean {
  return base === '/uts' && at === '/duration'
}

async function askClient(step: Step, mode: ClientMode, url: string): Promise<ClientAnswer> {
  const { method, path, headers, body } = fillRequest(step)
  const request = requestIn(body)
  const client = connect(`${url}${mode.base}`, {
    ...(mode.dialect === undefined ? {} : { dialect: mode.dialect }),
    ...credentialsIn(headers),
    ...resolversFor(request.context),
    maxRetries: 0,
  })
  if (path === '/health') {
    const { status = 0 } = await client.health()
    return { kind: status === 200 ? 'value' : 'server', document: {} }
  }
  return method === 'GET' ? await listTools(client) : await callTool(client, request)
}

async function listTools(client: ColletClient): Promise<ClientAnswer> {
  try {
    return answerOfList(await client.list())
  } catch (error) {
    if (error instanceof CallFailure) return answerOfFailure(error)
    throw error
  }
}

async function callTool(client: ColletClient, request: JsonObject): Promise<ClientAnswer> {
  const { tool_id: toolId, call_id: callId, execution_id: executionId, input, inputs } = request
  const id = callId ?? executionId
  const options = typeof id === 'string' ? { callId: id } : {}
  return answerOfCall(await client.tryCall(String(toolId), objectOf(input ?? inputs), options))
}

/** The call inside a wrapped or bare body. */
function requestIn(body: unknown): JsonObject {
  const sent: JsonValue = body === undefined ? null : JSON.parse(JSON.stringify(body))
  const members = objectOf(sent)
  return isJsonObject(members.request) ? members.request : members
}

function credentialsIn(headers: Readonly<Record<string, string>>): ClientOptions {
  const entries = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const)
  const bearer = entries.find(([name]) => name === 'authorization')?.[1].replace(/^Bearer /, '')
  const key = entries.find(([name]) => name.endsWith('-api-key'))?.[1]
  return { ...(bearer === undefined ? {} : { jwt: bearer }), ...(key === undefined ? {} : { apiKey: key }) }
}

/** Passes the credentials of the vector's request to the client, from either form of `context` (C-26). */
function resolversFor(context: JsonValue | undefined): ClientOptions {
  if (!isJsonObject(context)) return {}
  const tokens = valuesIn(context.authorization, 'token')
  const secrets = valuesIn(context.secrets, 'value')
  const { user_id: userId } = context
  return {
    requirements: {
      authorization: (id) => tokens.get(id),
      secrets: (id) => secrets.get(id),
      userId: () => (typeof userId === 'string' ? userId : undefined),
    },
  }
}

function valuesIn(items: JsonValue | undefined, member: string): ReadonlyMap<string, string> {
  const entries = Array.isArray(items)
    ? items.map((item: JsonValue) => [objectOf(item).id, objectOf(item)[member]])
    : Object.entries(objectOf(items))
  return new Map(entries.map(([id, value]) => [String(id), String(value)]))
}

function objectOf(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : {}
}
