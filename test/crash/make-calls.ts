import type { CrashStage } from './crash-stage.ts'
import { deliverCall, planCall } from './deliver-call.ts'
import type { EffectTool } from './effect-log.ts'
import { enterRun } from './enter-run.ts'

const SHARE_IN_RUNS = 0.5

/** One caller: makes a new call as soon as the last one is answered, until it is stopped. */
export async function makeCalls(stage: CrashStage, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    const tool = pickTool(stage)
    const runId = stage.random() < SHARE_IN_RUNS ? enterRun(stage) : undefined
    const key = planCall(stage, { tool, runId, session: undefined })
    await Promise.all(pickTargets(stage).map((server) => deliverCall(stage, { key, server, stop })))
  }
}

function pickTool({ random }: CrashStage): EffectTool {
  const dice = random()
  if (dice < 0.15) return 'Effect.Approved@1.0.0'
  if (dice < 0.35) return 'Effect.Write@1.0.0'
  if (dice < 0.6) return 'Effect.Counter@1.0.0'
  if (dice < 0.7) return 'Effect.Look@1.0.0'
  return dice < 0.85 ? 'Effect.Idempotent@1.0.0' : 'Effect.Flaky@1.0.0'
}

/** With one server some calls are sent twice at once; with more, most calls are sent to two servers. */
function pickTargets({ servers, random }: CrashStage): readonly number[] {
  const dice = random()
  if (servers.length === 1) return dice < 0.1 ? [0, 0] : [0]
  const first = Math.floor(random() * servers.length)
  return dice < 0.6 ? [first, (first + 1) % servers.length] : [first]
}
