import { setTimeout as wait } from 'node:timers/promises'
import { isFinal, isParked, type PlannedCall, type Reply } from './call-history.ts'
import { sendCall } from './call-server.ts'
import { addressOf, type CrashStage, pickProtocol, pickServer } from './crash-stage.ts'

/** As often as the server runs a released call (rule 9). */
const MAX_RELEASES = 3

/** Records a new call before it is sent. */
export function planCall(stage: CrashStage, call: PlannedCall): string {
  const key = `call-${stage.calls.size}`
  stage.calls.set(key, call)
  return key
}

export interface Delivery {
  readonly key: string
  /** The preferred server of the first request. */
  readonly server: number
  readonly stop: AbortSignal
}

/** Sends a call, and sends it again with the same key whenever the connection breaks. */
export async function deliverCall(stage: CrashStage, { key, server, stop }: Delivery): Promise<void> {
  const call = stage.calls.get(key)
  if (call === undefined) throw new Error(`${key} was never planned.`)
  const { retryDelayMs, maxSendings } = stage.pace
  let releases = 0
  for (let sending = 0; sending < maxSendings; sending += 1) {
    const target = pickServer(stage, server)
    const address = await addressOf(stage, target)
    if (stop.aborted) return
    const sentAtMs = performance.now()
    const reply = await sendCall(address, key, call, pickProtocol(stage))
    stage.sendings.push({ key, server: target, sentAtMs, endedAtMs: performance.now(), reply: kept(reply) })
    if (reply === undefined) continue
    if (reply.canRetry) releases += 1
    if (isAnswered(reply) || releases === MAX_RELEASES) return
    await wait(retryDelayMs)
  }
  throw new Error(`${key} had no answer after ${maxSendings} sendings.`)
}

/** Drops the bodies of refusals, which no check reads: there may be a million of them. */
function kept(reply: Reply | undefined): Reply | undefined {
  return reply?.asksForRetry === true ? { ...reply, body: '' } : reply
}

/** A wrong status ends the delivery too: it is recorded, and the judge reports it. */
function isAnswered(reply: Reply): boolean {
  if (isParked(reply)) return false
  return isFinal(reply) || (reply.status !== 200 && !reply.asksForRetry)
}
