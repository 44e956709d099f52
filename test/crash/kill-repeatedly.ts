import { setTimeout as wait } from 'node:timers/promises'
import type { CrashStage } from './crash-stage.ts'
import { between } from './seeded-random.ts'

const VICTIM = 0
/** Share of kills before the server listens: recovery must survive an interruption too. */
const EARLY_SHARE = 0.15
const MAX_LIFE_MS = 800

/** Average answers per life that the servers reach before the next kill, however slow the machine is. */
const ANSWERS_OF_A_LIFE = 40
const MAX_WAIT_MS = 20_000

export interface KillPlan {
  readonly kills: number
  /** Keeps killing until this much time has passed. */
  readonly seconds: number
}

/** Kills and restarts the first server; the callers stop at the last kill, with calls still in flight. */
export async function killRepeatedly(
  stage: CrashStage,
  plan: KillPlan,
  stop: AbortController,
): Promise<void> {
  const victim = stage.servers[VICTIM]
  if (victim === undefined) throw new Error('There is no server to kill.')
  const until = performance.now() + plan.seconds * 1000
  while (!stop.signal.aborted) {
    // The life before the last kill of the plan makes up for those that were cut early.
    if (stage.random() >= EARLY_SHARE || stage.kills.length + 1 === plan.kills) {
      await victim.url()
      await answersOf(stage, stop.signal)
    }
    await wait(between(stage.random, 0, MAX_LIFE_MS))
    if (stop.signal.aborted) return
    stage.kills.push({ server: VICTIM, atMs: performance.now() })
    await victim.kill()
    if (stage.kills.length >= plan.kills && performance.now() >= until) stop.abort()
    victim.start()
  }
  await victim.url()
}

async function answersOf(stage: CrashStage, signal: AbortSignal): Promise<void> {
  const [wanted, until] = [ANSWERS_OF_A_LIFE * (stage.kills.length + 1), performance.now() + MAX_WAIT_MS]
  while (answeredCalls(stage) < wanted && performance.now() < until && !signal.aborted) await wait(20)
}

function answeredCalls({ sendings }: CrashStage): number {
  return new Set(sendings.filter(({ reply }) => reply?.success === true).map(({ key }) => key)).size
}
