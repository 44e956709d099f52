import { setTimeout as wait } from 'node:timers/promises'
import { z } from 'zod'
import { approverKeyOf } from './approver-key.ts'
import { addressOf, type CrashStage, pickServer } from './crash-stage.ts'
import { exchange } from './exchange.ts'

const CHECK_INTERVAL_MS = 10
const REJECTED_SHARE = 0.1
/** Share of decisions that are sent twice at once, to any servers: one of them wins. */
const TWICE_SHARE = 0.2

const LIST = z.object({ approvals: z.array(z.object({ id: z.string() })) })

/** Approves pending calls, and rejects some, through any listening server, until it is stopped. */
export async function approveCalls(stage: CrashStage, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    const server = pickServer(stage, Math.floor(stage.random() * stage.servers.length))
    const asked = await ask(stage, server, '?state=pending&limit=200')
    const { approvals } = asked?.status === 200 ? LIST.parse(JSON.parse(asked.text)) : { approvals: [] }
    await Promise.all(approvals.map(({ id }) => decide(stage, id)))
    await wait(CHECK_INTERVAL_MS)
  }
}

async function decide(stage: CrashStage, id: string): Promise<void> {
  const verb = stage.random() < REJECTED_SHARE ? 'reject' : 'approve'
  const times = stage.random() < TWICE_SHARE ? 2 : 1
  const targets = Array.from({ length: times }, (_, index) => pickServer(stage, index % stage.servers.length))
  await Promise.all(targets.map((server) => ask(stage, server, `/${id}/${verb}`, '{}')))
}

async function ask(stage: CrashStage, server: number, path: string, body?: string) {
  const address = { ...(await addressOf(stage, server)), apiKey: approverKeyOf(stage.apiKey) }
  const question = body === undefined ? ({ method: 'GET' } as const) : ({ method: 'POST', body } as const)
  return await exchange(address, `/admin/approvals${path}`, question)
}
