import type { JsonObject } from '#core/json'
import type { RemoteTool } from '#protocols/otc/codec-client'
import { awaitChallenges } from './await-challenges.ts'
import { CallFailure } from './call-failure.ts'
import { checkCallId, copyJson } from './call-input.ts'
import { type CallOptions, type CallRun, factsOf } from './call-run.ts'
import { type CallSession, findTarget } from './call-target.ts'
import { readTimeoutMs } from './client-options.ts'
import { NoAnswer } from './http-exchange.ts'
import { type CallResult, readOutcome } from './read-outcome.ts'
import { resolveContext } from './resolve-context.ts'
import { backoffMs, LONGEST_WAIT_MS, MOST_TOOL_RETRIES } from './retry-policy.ts'
import { sendCall } from './send-call.ts'
import { noAnswerFailure, pause } from './send-with-retries.ts'
import { joinSignals, untilAborted } from './wait.ts'

/** The whole story of a call: find the tool, fill in what it needs, send, read, and maybe again. */
export async function runCall(
  session: CallSession,
  tool: string | RemoteTool,
  input: JsonObject,
  options: CallOptions,
): Promise<CallResult> {
  const run = await prepare(session, tool, input, options)
  for (;;) {
    const outcome = readOutcome(await sendCall(run), run)
    if (!(outcome instanceof CallFailure)) return outcome
    if (!(await mayTryAgain(outcome, run))) throw outcome
  }
}

async function prepare(
  session: CallSession,
  tool: string | RemoteTool,
  input: JsonObject,
  options: CallOptions,
): Promise<CallRun> {
  const { settings } = session
  const callId = checkCallId(options.callId ?? settings.randomId())
  if (options.timeoutMs !== undefined) readTimeoutMs(options.timeoutMs)
  const copy = copyJson(input)
  const signal = joinSignals(settings.signal, options.signal)
  const target = await findTarget(session, tool, { callId: options.callId, signal })
  const { userId } = options
  const userInfo = options.userInfo === undefined ? undefined : copyJson(options.userInfo, 'userInfo')
  const context = await resolveContext({ ...target, userId, userInfo, signal }, settings)
  if (signal?.aborted) {
    const message = 'The call was aborted by its caller before it was sent.'
    throw new CallFailure('transport', message, { toolId: target.toolId, cause: signal.reason })
  }
  const progress = { resent: 0 }
  return {
    ...{ session, target, input: copy, options, signal, progress, context, callId },
    ...{ toolRetries: 0, askedUser: false },
  }
}

/** Prepares the next attempt, or says that there is none. */
async function mayTryAgain(failure: CallFailure, run: CallRun): Promise<boolean> {
  try {
    if (mayResend(failure, run)) {
      await pause(failure.retryAfterMs ?? backoffMs(run.toolRetries), run.session.settings, run.signal)
      run.toolRetries += 1
      // A caller's own id is kept: under a new one, repeating the call later would run the tool again.
      run.callId = run.options.callId ?? checkCallId(run.session.settings.randomId())
      return true
    }
    return await isSettledByUser(failure, run)
  } catch (error) {
    if (error instanceof NoAnswer) throw noAnswerFailure(error, 'Waiting to repeat the call', factsOf(run))
    throw error
  }
}

/** Prompt content means that the input must change, so that failure goes to the model (T-06). */
function mayResend(failure: CallFailure, { session, toolRetries }: CallRun): boolean {
  return (
    failure.class === 'tool' &&
    failure.canRetry &&
    failure.additionalPromptContent === undefined &&
    toolRetries < Math.min(MOST_TOOL_RETRIES, session.settings.maxRetries) &&
    (failure.retryAfterMs ?? 0) <= LONGEST_WAIT_MS
  )
}

/** Shows each challenge, and after all are completed allows one repetition with the same call id (OTC-78). */
async function isSettledByUser(failure: CallFailure, run: CallRun): Promise<boolean> {
  const { session, signal, target } = run
  const { settings } = session
  if (run.askedUser || failure.challenges.length === 0) return false
  run.askedUser = true
  await showChallenges(failure, run)
  if (!settings.pollChallenges) return false
  const rules = { settings, signal, ownHeaders: target.headers }
  if (!(await awaitChallenges(failure.challenges, rules))) return false
  run.context = await resolveContext(
    { ...target, userId: run.context?.userId, userInfo: run.context?.userInfo, signal },
    settings,
  )
  return true
}

async function showChallenges(failure: CallFailure, run: CallRun): Promise<void> {
  const { onChallenge } = run.session.settings
  try {
    for (const challenge of failure.challenges) {
      await untilAborted(run.signal, async () => onChallenge(challenge))
    }
  } catch (cause) {
    const { missing = {} } = failure
    const why = run.signal?.aborted ? 'aborted while onChallenge ran' : 'stopped because onChallenge failed'
    const message = `The call was ${why}: ${failure.message}`
    throw new CallFailure(failure.class, message, { ...factsOf(run), missing, cause })
  }
}
