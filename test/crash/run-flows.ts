import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { z } from 'zod'
import { approverKeyOf } from './approver-key.ts'
import type { Reply } from './call-history.ts'
import { sendCall } from './call-server.ts'
import { addressOf, type CrashStage, pickServer } from './crash-stage.ts'
import { readEffects } from './effect-log.ts'
import { exchange } from './exchange.ts'
import { effectKey, FLOW, type FlowStep } from './flow-steps.ts'

const CALLS = z.object({
  calls: z.array(z.object({ record: z.string(), call_id: z.string(), state: z.string() })),
})

/** One caller of workflows: starts a new one as soon as the last has its outcome, until it is stopped. */
export async function runFlows(stage: CrashStage, folder: string, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    const key = `flow-${stage.flows.size}`
    stage.flows.set(key, undefined)
    const reply = await finishFlow(stage, { folder, key, stop })
    if (reply !== undefined) stage.flows.set(key, reply)
  }
}

/** After the last restart: continues every workflow without an outcome, and asks once more for the others. */
export async function finishFlows(stage: CrashStage, folder: string): Promise<ReadonlyMap<string, Reply>> {
  const finished = new Map<string, Reply>()
  const keys = stage.flows.keys()
  const finish = async (): Promise<void> => {
    for (const key of keys) {
      const reply = await finishFlow(stage, { folder, key, stop: undefined })
      if (reply !== undefined) finished.set(key, reply)
    }
  }
  await Promise.all(Array.from({ length: 8 }, finish))
  return finished
}

interface Flow {
  readonly folder: string
  readonly key: string
  readonly stop: AbortSignal | undefined
}

/** Sends it again with the same key until it has an outcome; settles steps that were cut, as an operator would. */
async function finishFlow(stage: CrashStage, { folder, key, stop }: Flow): Promise<Reply | undefined> {
  const { retryDelayMs, maxSendings } = stage.pace
  let last: Reply | undefined
  for (let sending = 0; sending < 2 * maxSendings; sending += 1) {
    const server = pickServer(stage, Math.floor(stage.random() * stage.servers.length))
    const address = await addressOf(stage, server)
    if (stop?.aborted === true) return undefined
    const call = { tool: FLOW, runId: undefined, session: undefined }
    const reply = await sendCall(address, key, call)
    last = reply ?? last
    if (reply?.errorCode === 'ambiguous') await settleSteps(stage, folder, key)
    else if (reply !== undefined && isFinal(reply)) return reply
    await wait(retryDelayMs)
  }
  throw new Error(`${key} had no outcome after ${2 * maxSendings} sendings: ${JSON.stringify(last)}`)
}

/** A failure that allows a retry is not final (rule 9). */
function isFinal({ status, asksForRetry, canRetry, errorCode }: Reply): boolean {
  return (
    !asksForRetry &&
    !canRetry &&
    errorCode !== 'outcome_unknown' &&
    (status === 200 || errorCode !== undefined)
  )
}

/** Its process is dead, so the log of effects is complete. */
async function settleSteps(stage: CrashStage, folder: string, flow: string): Promise<void> {
  const asked = await ask(stage, '?state=ambiguous&limit=1000')
  if (asked?.status !== 200) return
  for (const { record, call_id: callId } of CALLS.parse(JSON.parse(asked.text)).calls) {
    const [parent, step] = callId.split('/')
    if (parent !== flow || step === undefined) continue
    const key = effectKey(flow, step as FlowStep)
    const effect = readEffects(join(folder, 'effects.log')).find((found) => found.key === key)
    const why = 'the log of effects says so'
    const as = effect === undefined ? { as: 'not-run', why } : { as: 'succeeded', value: effect.nonce, why }
    const settled = await ask(stage, `/${record}/settle`, JSON.stringify(as))
    if (settled?.status === 200) stage.settled.push(`${callId} ${as.as}`)
  }
}

async function ask(stage: CrashStage, path: string, body?: string) {
  const server = await addressOf(stage, pickServer(stage, 0))
  const address = { ...server, apiKey: approverKeyOf(stage.apiKey) }
  const question = body === undefined ? ({ method: 'GET' } as const) : ({ method: 'POST', body } as const)
  return await exchange(address, `/admin/calls${path}`, question)
}
