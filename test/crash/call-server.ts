import { z } from 'zod'
import type { PlannedCall, Reply } from './call-history.ts'
import { type Address, type Answer, exchange } from './exchange.ts'

const RESULT = z.object({
  result: z.object({
    success: z.boolean(),
    value: z.string().optional(),
    error: z.object({ can_retry: z.boolean().optional() }).optional(),
  }),
})

const CALL_VIEW = z.object({ state: z.string() })

/** Sends one call; `undefined` when the connection broke before a whole answer came. */
export async function sendCall(
  address: Address,
  key: string,
  { tool, runId, session }: Omit<PlannedCall, 'tool'> & { readonly tool: string },
): Promise<Reply | undefined> {
  const body = JSON.stringify({ request: { tool_id: tool, call_id: key, input: { key } } })
  const headers = {
    ...(runId === undefined ? {} : { 'collet-run': runId }),
    ...(session === undefined ? {} : { 'collet-session': session.sessionId }),
  }
  const answer = await exchange(address, '/tools/call', { method: 'POST', body, headers })
  return answer === undefined ? undefined : readReply(answer)
}

/** The state of a call; `undefined` when the server does not know it. */
export async function readState(address: Address, key: string): Promise<string | undefined> {
  const answer = await exchange(address, `/calls/${encodeURIComponent(key)}`, { method: 'GET' })
  if (answer === undefined) throw new Error(`The connection broke while reading the state of ${key}.`)
  return answer.status === 200 ? CALL_VIEW.parse(JSON.parse(answer.text)).state : undefined
}

function readReply({ status, headers, text }: Answer): Reply {
  const common = {
    status,
    comeAgain: headers.get('x-should-retry') === 'true',
    errorCode: headers.get('collet-error-code') ?? undefined,
    runId: headers.get('collet-run') ?? undefined,
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
