import { setTimeout as wait } from 'node:timers/promises'
import { addressOf, type CrashStage, pickServer } from './crash-stage.ts'
import { deliverCall, planCall } from './deliver-call.ts'
import { enterRun } from './enter-run.ts'
import { between } from './seeded-random.ts'
import type { DrivenSession } from './session-history.ts'
import { closeSession, openSession } from './session-server.ts'

const COUNTER = 'Effect.Counter@1.0.0'
const COUNTER_ID = 'openwop:Effect.Counter'
const MAX_CALLS = 5
const SHARE_IN_RUNS = 0.5
const SHARE_LEFT_OPEN = 0.4
/** How often a session is closed while one of its calls still runs. */
const SHARE_CLOSED_EARLY = 0.3
/** About as long as a call takes. */
const MAX_HEAD_START_MS = 40
/** Below the server's limit per principal. */
const MAX_LEFT_OPEN = 20
const RETRY_DELAY_MS = 20

/** One caller with state: opens a session, calls in it, then closes it or leaves it open for the next kill. */
export async function useSessions(stage: CrashStage, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    const session = await open(stage, stop)
    if (session === undefined) continue
    const calls = 1 + Math.floor(stage.random() * MAX_CALLS)
    for (let call = 0; call < calls; call += 1) await callIn(stage, session, stop)
    if (stage.random() < SHARE_LEFT_OPEN && leftOpen(stage, session.server) < MAX_LEFT_OPEN) continue
    const early = stage.random() < SHARE_CLOSED_EARLY ? callIn(stage, session, stop) : undefined
    if (early !== undefined) await wait(between(stage.random, 0, MAX_HEAD_START_MS))
    await Promise.all([early, close(stage, session)])
    await callIn(stage, session, stop)
  }
}

async function open(stage: CrashStage, stop: AbortSignal): Promise<DrivenSession | undefined> {
  const server = pickServer(stage, Math.floor(stage.random() * stage.servers.length))
  const address = await addressOf(stage, server)
  if (stop.aborted) return undefined
  const runId = stage.random() < SHARE_IN_RUNS ? enterRun(stage) : undefined
  const openSentAtMs = performance.now()
  const opened = await openSession(address, COUNTER_ID, runId)
  if (opened === undefined) {
    await wait(RETRY_DELAY_MS)
    return undefined
  }
  const unclosed = { closeSentAtMs: undefined, closedAtMs: undefined, closeStatus: undefined }
  const session = { ...opened, server, openSentAtMs, openedAtMs: performance.now(), ...unclosed }
  stage.sessions.push(session)
  return session
}

/** Calls the server that holds the state; a retry after a kill goes to any running server. */
async function callIn(stage: CrashStage, session: DrivenSession, stop: AbortSignal): Promise<void> {
  if (stop.aborted) return
  const key = planCall(stage, { tool: COUNTER, runId: undefined, session })
  await deliverCall(stage, { key, server: session.server, stop })
}

async function close(stage: CrashStage, session: DrivenSession): Promise<void> {
  const address = await addressOf(stage, session.server)
  session.closeSentAtMs = performance.now()
  session.closeStatus = await closeSession(address, session.sessionId)
  if (session.closeStatus === 204) session.closedAtMs = performance.now()
}

function leftOpen({ sessions, kills }: CrashStage, server: number): number {
  const sinceMs = kills.findLast((kill) => kill.server === server)?.atMs ?? 0
  return sessions.filter(
    (session) =>
      session.server === server && session.openSentAtMs > sinceMs && session.closeSentAtMs === undefined,
  ).length
}
