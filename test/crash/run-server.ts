import { z } from 'zod'
import { type Address, exchange } from './exchange.ts'
import type { SeenEvent } from './run-history.ts'

const EVENT = z.object({
  eventId: z.string(),
  sequence: z.int(),
  type: z.string(),
  payload: z.object({
    callId: z.string().optional(),
    sessionId: z.string().optional(),
    status: z.string().optional(),
  }),
})

const PAGE = z.object({ events: z.array(EVENT), isComplete: z.boolean() })

export function runPath(runId: string): string {
  return `/v1/runs/${encodeURIComponent(runId)}`
}

export function readEvent(text: string): SeenEvent {
  return seenEvent(EVENT.parse(JSON.parse(text)))
}

/** Every event of a run, page by page; `undefined` if the server has no such run. */
export async function pollRun(address: Address, runId: string): Promise<readonly SeenEvent[] | undefined> {
  const events: SeenEvent[] = []
  for (;;) {
    const last = events.at(-1)?.sequence ?? -1
    const answer = await exchange(address, `${runPath(runId)}/events/poll?lastSequence=${last}`, {
      method: 'GET',
    })
    if (answer?.status === 404) return undefined
    if (answer?.status !== 200) throw new Error(`${runId} could not be read: ${answer?.text}`)
    const page = PAGE.parse(JSON.parse(answer.text))
    if (page.events.length === 0) return events
    events.push(...page.events.map(seenEvent))
  }
}

/** Ends a run, and with it the sessions that this server holds for it. */
export async function endRun(address: Address, runId: string): Promise<void> {
  const answer = await exchange(address, runPath(runId), { method: 'DELETE' })
  if (answer?.status === 204 || answer?.status === 404) return
  throw new Error(`${runId} could not be ended: ${answer?.status} ${answer?.text}`)
}

function seenEvent({ eventId, sequence, type, payload }: z.infer<typeof EVENT>): SeenEvent {
  const { callId, sessionId, status } = payload
  const runKey = /^evt_(.+)_\d+$/.exec(eventId)?.[1] ?? ''
  return { sequence, type, runKey, callId, sessionId, ok: status === 'ok' }
}
