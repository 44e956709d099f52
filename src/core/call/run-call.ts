import type { Outcome } from '#core/outcome'
import type { Attempt, CallRecord, NewCall } from '#core/ports/store'
import { hasEffects, type Tool } from '#core/tool'
import type { CallServices } from './call-services.ts'
import { checkReady } from './check-ready.ts'
import { execute } from './execute.ts'
import type { IdentifiedCall } from './identified-call.ts'
import { join } from './look-up.ts'
import { recordOutcome } from './record-outcome.ts'
import { refusalOutcome } from './refusal-outcome.ts'
import { attemptOf, LOST, type RunningCall } from './running-calls.ts'

export interface CheckedCall {
  readonly call: IdentifiedCall
  readonly tool: Tool
  /** What `run` gets. */
  readonly input: unknown
  /** The record whose next attempt this is. */
  readonly seen: CallRecord | undefined
}

export type RunResult =
  | { readonly kind: 'answer'; readonly outcome: Outcome; readonly joined: boolean }
  /** Somebody else's record is under the key: look it up again. */
  | { readonly kind: 'lost' }

/** Claim, run, record. The entry in `running` is made before the claim and lives until the outcome is durable. */
export async function runCall(services: CallServices, checked: CheckedCall): Promise<RunResult> {
  const joined = join(services, checked.call)
  if (joined !== undefined) {
    const outcome = await joined
    return outcome === LOST ? { kind: 'lost' } : { kind: 'answer', outcome, joined: true }
  }
  // Again, because checking took time: from here to the entry nothing waits, so whoever drains sees every run.
  checkReady(services)
  const running = services.running.start(checked.call, checked.tool)
  const newCall = toNewCall(services, checked)
  const attempt = await claim(services, { running, newCall, checked })
  if (attempt === undefined) return { kind: 'lost' }
  const { outcome: ran, late } = await execute(services, running, checked.input)
  const claimed = isClaimed(checked)
  const outcome = await recordOutcome(services, { running, newCall, attempt, outcome: ran, claimed })
  if (late !== undefined) keepLate(services, attemptOf(running, attempt), late)
  return outcome === LOST ? { kind: 'lost' } : { kind: 'answer', outcome, joined: false }
}

/** Rule 10: a late result never changes the outcome; it is kept, journaled, and its slot is freed only now. */
function keepLate(services: CallServices, run: Attempt, late: Promise<Outcome>): void {
  services.running.holdSlotUntil(late.then((outcome) => services.keeper.recordLate(run, outcome)))
}

interface Claiming {
  readonly running: RunningCall
  readonly newCall: NewCall
  readonly checked: CheckedCall
}

/** The attempt we own, or `undefined` when somebody else has the key. A claim that fails ends the entry: nothing runs. */
async function claim(
  services: CallServices,
  { running, newCall, checked }: Claiming,
): Promise<number | undefined> {
  if (!isClaimed(checked)) return 1
  try {
    const { seen } = checked
    const result = await (seen === undefined
      ? services.store.claim(newCall)
      : services.store.reclaim(seen, newCall.atMs))
    if (result.kind === 'claimed') return result.attempt
  } catch (error) {
    services.running.noteAbandoned(running)
    abandon(services, running, refusalOutcome(services, error))
    throw error
  }
  abandon(services, running, LOST)
  return undefined
}

/** `pure` and `read` skip the claim of a first attempt (rule 7). */
function isClaimed({ tool, seen }: CheckedCall): boolean {
  return hasEffects(tool.policy) || seen !== undefined
}

/** Nothing ran: whoever joined gets the refusal, or looks at the record that won. */
function abandon(services: CallServices, running: RunningCall, end: Outcome | typeof LOST): void {
  services.running.end(running)
  running.settle(end)
}

function toNewCall(services: CallServices, { call, tool }: CheckedCall): NewCall {
  const atMs = services.clock.nowMs()
  return {
    tenant: call.tenant,
    record: call.record,
    principal: call.principal.id,
    callId: call.callId,
    traceId: call.request.traceId ?? '',
    userId: call.request.userId,
    fingerprint: call.fingerprint,
    tool: tool.id,
    definitionHash: tool.definitionHash,
    tier: tool.policy.safetyTier,
    replay: tool.policy.replay,
    rerunUntilMs: rerunUntil(tool, atMs),
    inputJson: call.inputJson,
    atMs,
  }
}

/** Rule 8. */
function rerunUntil(tool: Tool, atMs: number): number {
  if (!hasEffects(tool.policy)) return Number.MAX_SAFE_INTEGER
  return tool.policy.replay === 'idempotent' ? atMs + tool.policy.rerunWindowMs : 0
}
