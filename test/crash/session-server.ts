import { z } from 'zod'
import { type Address, exchange } from './exchange.ts'

const OPENED = z.object({ sessionId: z.string(), runId: z.string() })

/** Those whose answer was lost stay open until their server dies, and count for the limit of a principal. */
const COME_AGAIN: ReadonlySet<number> = new Set([429, 503])

/** What the server said about a new session; `undefined` when the connection broke or it asks to come again. */
export async function openSession(
  address: Address,
  toolId: string,
  runId: string | undefined,
): Promise<z.infer<typeof OPENED> | undefined> {
  const body = JSON.stringify({ toolId, ...(runId === undefined ? {} : { runId }) })
  const answer = await exchange(address, '/v1/sessions', { method: 'POST', body })
  if (answer === undefined || COME_AGAIN.has(answer.status)) return undefined
  if (answer.status !== 201) throw new Error(`A session was not opened: ${answer.status} ${answer.text}`)
  return OPENED.parse(JSON.parse(answer.text))
}

/** The status of the answer; `undefined` when the connection broke. */
export async function closeSession(address: Address, sessionId: string): Promise<number | undefined> {
  const answer = await exchange(address, `/v1/sessions/${sessionId}`, { method: 'DELETE' })
  return answer?.status
}
