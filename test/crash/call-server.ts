import { z } from 'zod'
import type { Reply } from './call-history.ts'
import type { EffectTool } from './effect-log.ts'

const REPLY_LIMIT_MS = 30_000

const RESULT = z.object({
  result: z.object({
    success: z.boolean(),
    value: z.string().optional(),
    error: z.object({ can_retry: z.boolean().optional() }).optional(),
  }),
})

const CALL_VIEW = z.object({ state: z.string() })

export interface Address {
  readonly url: string
  readonly apiKey: string
}

/** Sends one call; `undefined` when the connection broke before a whole answer came. */
export async function sendCall(address: Address, tool: EffectTool, key: string): Promise<Reply | undefined> {
  const body = JSON.stringify({ request: { tool_id: tool, call_id: key, input: { key } } })
  const answer = await exchange(address, '/tools/call', { method: 'POST', body })
  return answer === undefined ? undefined : readReply(answer)
}

/** The state of a call; `undefined` when the server does not know it. */
export async function readState(address: Address, key: string): Promise<string | undefined> {
  const answer = await exchange(address, `/calls/${encodeURIComponent(key)}`, { method: 'GET' })
  if (answer === undefined) throw new Error(`The connection broke while reading the state of ${key}.`)
  return answer.status === 200 ? CALL_VIEW.parse(JSON.parse(answer.text)).state : undefined
}

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

async function exchange(
  { url, apiKey }: Address,
  path: string,
  request: { readonly method: string; readonly body?: string },
): Promise<Answer | undefined> {
  try {
    const response = await fetch(`${url}${path}`, {
      ...request,
      headers: {
        'x-api-key': apiKey,
        ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      signal: AbortSignal.timeout(REPLY_LIMIT_MS),
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  } catch {
    return undefined
  }
}

function readReply({ status, headers, text }: Answer): Reply {
  const common = {
    status,
    comeAgain: headers.get('x-should-retry') === 'true',
    errorCode: headers.get('collet-error-code') ?? undefined,
  }
  if (status !== 200) {
    return { ...common, success: false, canRetry: false, body: text, value: undefined }
  }
  const { result } = RESULT.parse(JSON.parse(text))
  return {
    ...common,
    success: result.success,
    canRetry: result.error?.can_retry ?? false,
    body: text,
    value: result.value,
  }
}
