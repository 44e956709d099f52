import { z } from 'zod'
import { type Address, exchange } from './exchange.ts'

const OPENED = z.object({ sessionId: z.string(), runId: z.string() })

/** Sessions whose answer was lost stay open until their server dies, and count towards the principal's limit. */
const RETRY_STATUSES: ReadonlySet<number> = new Set([429, 503])

/** The answer about a new session; `undefined` if the connection broke or the server asks for a retry. */
export async function openSession(
  address: Address,
  toolId: string,
  runId: string | undefined,
): Promise<z.infer<typeof OPENED> | undefined> {
  const body = JSON.stringify({ toolId, ...(runId === undefined ? {} : { runId }) })
  const answer = await exchange(address, '/v1/sessions', { method: 'POST', body })
  if (answer === undefined || RETRY_STATUSES.has(answer.status)) return undefined
  if (answer.status !== 201) throw new Error(`A session was not opened: ${answer.status} ${answer.text}`)
  return OPENED.parse(JSON.parse(answer.text))
}

/** The status of the answer; `undefined` if the connection broke. */
export async function closeSession(address: Address, sessionId: string): Promise<number | undefined> {
  const answer = await exchange(address, `/v1/sessions/${sessionId}`, { method: 'DELETE' })
  return answer?.status
}
