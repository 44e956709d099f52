import { ask } from './mcp-talk.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
type Json = any

interface Asked {
  readonly tool: string
  readonly input?: object
  readonly key?: string
  readonly headers?: Readonly<Record<string, string>>
}

export interface Reported {
  /** `ok`, or the error's code. */
  readonly code: string
  readonly value: Json
  readonly message: string
  /** Further members of the error, where the protocol has them. */
  readonly retry: { readonly can_retry?: boolean; readonly retry_after_ms?: number }
}

export type CallWay = (url: string, asked: Asked) => Promise<Reported>

const JSON_TYPE = { 'Content-Type': 'application/json' }

function codeOf(response: Response, isOk: boolean): string {
  return isOk ? 'ok' : (response.headers.get('collet-error-code') ?? '?')
}

const keyHeader = (key: string | undefined) => (key === undefined ? {} : { 'Idempotency-Key': key })

async function otc(url: string, path: string, { tool, input = {}, key, headers }: Asked): Promise<Reported> {
  const request = { tool_id: tool, input, ...(key === undefined ? {} : { call_id: key }) }
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { ...JSON_TYPE, ...headers },
    body: JSON.stringify({ $schema: 'otc://1.0', request }),
  })
  const body: Json = await response.json()
  const result = body.result ?? body
  const error = result.error ?? body
  return {
    code: codeOf(response, result.success === true),
    value: result.value,
    message: error.message ?? '',
    retry: { can_retry: error.can_retry, retry_after_ms: error.retry_after_ms },
  }
}

/** A call over each protocol that makes calls, with a common form of answer. */
export const CALL_WAYS = {
  OTC: (url, asked) => otc(url, '/tools/call', asked),
  '/uts': (url, asked) => otc(url, '/uts/tools/call', asked),
  OpenTool: async (url, { tool, input = {}, key, headers }) => {
    const response = await fetch(`${url}/opentool/call`, {
      method: 'POST',
      headers: { ...JSON_TYPE, ...keyHeader(key), ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', id: '1', method: tool, params: input }),
    })
    const { result, error }: Json = await response.json()
    return {
      code: codeOf(response, error === null),
      value: result.result,
      message: error?.message ?? '',
      retry: { can_retry: error?.data?.can_retry, retry_after_ms: error?.data?.retry_after_ms },
    }
  },
  MCP: async (url, { tool, input = {}, key, headers }) => {
    const params = { name: tool, arguments: input }
    const response = await ask(
      url,
      { method: 'tools/call', params },
      { headers: { ...keyHeader(key), ...headers } },
    )
    const { result, error }: Json = await response.json()
    return {
      code: codeOf(response, result !== undefined && result.isError !== true),
      value: result?.structuredContent,
      message: result?.content?.[0]?.text ?? error?.message ?? '',
      retry: {},
    }
  },
} satisfies Record<string, CallWay>
