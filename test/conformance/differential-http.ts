import { Agent, request as httpRequest } from 'node:http'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { CallPlan } from './differential-calls.ts'
import { decisionOf, type Observation } from './differential-observation.ts'
import { keyProblem } from './differential-reading.ts'

export interface Request {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Absent: a GET. */
  readonly body?: JsonObject
}

export interface Response {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly json: JsonObject
}

const agent = new Agent({ keepAlive: true })

/** One request over a real socket, which stays open for the next. */
export function send(baseUrl: string, { path, headers, body }: Request): Promise<Response> {
  const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
  const method = bytes === undefined ? 'GET' : 'POST'
  const described =
    bytes === undefined ? {} : { 'content-type': 'application/json', 'content-length': bytes.length }
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest(new URL(path, baseUrl), {
      method,
      headers: { ...headers, ...described },
      agent,
    })
    outgoing.on('error', reject)
    outgoing.on('response', (incoming) => {
      const chunks: Buffer[] = []
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
      incoming.on('error', reject)
      incoming.on('end', () => {
        const json: JsonValue = JSON.parse(Buffer.concat(chunks).toString('utf8'))
        if (isJsonObject(json)) resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, json })
        else reject(new Error(`${path} answered ${JSON.stringify(json)}`))
      })
    })
    outgoing.end(bytes)
  })
}

/** Header bytes are UTF-8, which Node expects as a Latin-1 string. */
export function utf8Header(text: string): string {
  return Buffer.from(text).toString('latin1')
}

/** The run and the session a call names, as every protocol carries them. */
export function scopeHeaders({ runId }: CallPlan, sessionId: string | undefined): Record<string, string> {
  return {
    ...(runId === undefined ? {} : { 'collet-run': encodeURIComponent(runId) }),
    ...(sessionId === undefined ? {} : { 'collet-session': sessionId }),
  }
}

/** Reads the headers that every answer has (rule 6), independent of its body. */
export function readHeaders({ headers }: Response, { key }: CallPlan) {
  const callId = decoded(headers['collet-call-id'])
  const runId = decoded(headers['collet-run'])
  const code = decoded(headers['collet-error-code']) ?? 'ok'
  const asked = keyProblem(key) === undefined ? key : undefined
  const observed: Observation = {
    decision: decisionOf(code),
    code,
    ...(callId === undefined ? {} : { callId: shownId(callId, asked) }),
    ...(runId === undefined ? {} : { runId }),
  }
  return { observed, callId, runId }
}

/** The caller's own id, or a marker for a generated one. */
export function shownId(callId: string, key: string | undefined): string {
  return key === undefined ? 'made' : callId === key ? 'as asked' : callId
}

function decoded(header: string | string[] | undefined): string | undefined {
  return header === undefined ? undefined : decodeURIComponent(`${header}`)
}

const NAMES: Readonly<Record<string, string>> = {
  developer_message: 'developerMessage',
  can_retry: 'canRetry',
  retry_after_ms: 'retryAfterMs',
  additional_prompt_content: 'additionalPromptContent',
  parameter_errors: 'parameterErrors',
  missing_requirements: 'missing',
}

/** An error's members under the core's names; an absent `can_retry` means false (OTC-93). Unknown members stay. */
export function withCoreNames(error: JsonObject): JsonObject {
  const members = Object.entries(error).map(([name, value]) => [NAMES[name] ?? name, value] as const)
  return { canRetry: false, ...Object.fromEntries(members) }
}

/** A suggested tool name is spelled as in the request, so each protocol spells it differently. */
export function withoutSuggestion(message: string): string {
  return message.replace(/\. Did you mean '[^']*'\?$/, '')
}
