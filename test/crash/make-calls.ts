import { setTimeout as wait } from 'node:timers/promises'
import { isFinal, type Reply } from './call-history.ts'
import { sendCall } from './call-server.ts'
import { addressOf, type CrashStage, pickServer } from './crash-stage.ts'
import type { EffectTool } from './effect-log.ts'

const MOST_SENDINGS = 100
const COME_AGAIN_MS = 20
/** As often as the server runs a released call (rule 9). */
const MOST_RELEASES = 3

/** One caller: a new call as soon as the last one has its answer, until told to stop. */
export async function makeCalls(stage: CrashStage, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    const key = `call-${stage.tools.size}`
    const tool = pickTool(stage)
    stage.tools.set(key, tool)
    await Promise.all(pickTargets(stage).map((server) => deliver(stage, { key, tool, server }, stop)))
  }
}

interface Delivery {
  readonly key: string
  readonly tool: EffectTool
  /** Where the first sending should go. */
  readonly server: number
}

/** Sends a call, and sends it again with the same key whenever the connection breaks. */
async function deliver(stage: CrashStage, { key, tool, server }: Delivery, stop: AbortSignal): Promise<void> {
  let releases = 0
  for (let sending = 0; sending < MOST_SENDINGS; sending += 1) {
    const target = pickServer(stage, server)
    const address = await addressOf(stage, target)
    if (stop.aborted) return
    const sentAtMs = performance.now()
    const reply = await sendCall(address, tool, key)
    stage.sendings.push({ key, server: target, sentAtMs, endedAtMs: performance.now(), reply })
    if (reply === undefined) continue
    if (reply.canRetry) releases += 1
    if (isAnswered(reply) || releases === MOST_RELEASES) return
    await wait(COME_AGAIN_MS)
  }
  throw new Error(`${key} had no answer after ${MOST_SENDINGS} sendings.`)
}

/** A wrong status ends the delivery too: it is on record, and the judge will name it. */
function isAnswered(reply: Reply): boolean {
  return isFinal(reply) || (reply.status !== 200 && !reply.comeAgain)
}

function pickTool({ random }: CrashStage): EffectTool {
  const dice = random()
  if (dice < 0.6) return 'Effect.Write@1.0.0'
  return dice < 0.8 ? 'Effect.Idempotent@1.0.0' : 'Effect.Flaky@1.0.0'
}

/** With one server some calls are sent twice at once; with two, most calls reach both. */
function pickTargets({ servers, random }: CrashStage): readonly number[] {
  const dice = random()
  if (servers.length === 1) return dice < 0.1 ? [0, 0] : [0]
  if (dice < 0.6) return [0, 1]
  return dice < 0.8 ? [0] : [1]
}
