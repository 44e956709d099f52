import { apiKeyOf, type TrustProject } from './trust-project.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
type Json = any

interface LaneAnswer {
  readonly code: string | undefined
  /** Result of the tool. */
  readonly value: Json
  /** `missing_requirements`, where the protocol puts it. */
  readonly missing: Json
  readonly run: string
}

/** One caller of one tool over one protocol; every request has the same content. */
export type Lane = (project: TrustProject, tool: string, name: string) => Promise<LaneAnswer>

export async function askJson(url: string, as: string, body?: object, more: Record<string, string> = {}) {
  const response = await fetch(url, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      authorization: `Bearer ${apiKeyOf(as)}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...more,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const json: Json = await response.json()
  return { status: response.status, headers: response.headers, json }
}

function otc(headers: (name: string) => Record<string, string>): Lane {
  return async (project, tool, name) => {
    const request = { tool_id: tool, call_id: `call-${name}`, input: { key: name } }
    const answer = await askJson(`${project.url}/tools/call`, name, { request }, headers(name))
    const { json } = answer
    return { ...factsOf(answer), value: json.result?.value, missing: json.missing_requirements }
  }
}

function openTool(headers: (name: string) => Record<string, string>): Lane {
  return async (project, tool, name) => {
    const body = { jsonrpc: '2.0', method: tool.replace('.', '_'), params: { key: name }, id: '1' }
    const answer = await askJson(`${project.url}/opentool/call`, name, body, headers(name))
    const { json } = answer
    return { ...factsOf(answer), value: json.result?.result, missing: json.error?.data?.missing_requirements }
  }
}

function factsOf({ headers }: { readonly headers: Headers }) {
  return {
    code: headers.get('collet-error-code') ?? undefined,
    run: headers.get('collet-run') ?? '',
  }
}

/** openwop has no tool calls: its callers name a run, and read the call there. */
export const LANES = {
  OTC: otc(() => ({})),
  OpenTool: openTool((name) => ({ 'idempotency-key': `call-${name}` })),
  'OpenTool without a key': openTool(() => ({})),
  openwop: otc((name) => ({ 'collet-run': `run-${name}` })),
} as const satisfies Record<string, Lane>

export async function eventsOf(project: TrustProject, as: string, run: string) {
  const { json } = await askJson(`${project.url}/v1/runs/${run}/events/poll`, as)
  const events: readonly { readonly type: string; readonly nodeId: string; readonly sequence: number }[] =
    json.events
  return events
}
