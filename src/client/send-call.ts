import { callPlaceHeaders } from '#protocols/call-headers'
import { buildCallBody, type CallPath } from '#protocols/otc/codec-client'
import { isRouteMiss } from '#protocols/otc/codec-client-reply'
import { CallFailure } from './call-failure.ts'
import { type CallRun, doubtOf, factsOf, isDeduplicated } from './call-run.ts'
import { type HttpAnswer, NoAnswer } from './http-exchange.ts'
import { noAnswerFailure, sendWithRetries } from './send-with-retries.ts'

/** Tries the call paths in order; only an answer from a path that exists counts (C-01). */
export async function sendCall(run: CallRun): Promise<HttpAnswer> {
  const { session, target } = run
  const { paths } = target.wire
  const known = session.route.path
  const order = known === undefined ? paths : [known, ...paths.filter((path) => path !== known)]
  for (const path of order) {
    const answer = await post(path, run)
    if (!isRouteMiss(answer.status, answer.body, target.toolId)) {
      session.route.path = path
      return answer
    }
  }
  const { base } = session.settings.server
  const message = `${base} has none of the call paths ${order.join(', ')}; check the server URL.`
  throw new CallFailure('server', message, { ...factsOf(run), status: 404 })
}

async function post(path: CallPath, run: CallRun): Promise<HttpAnswer> {
  const { target, signal, progress, callId, input, context } = run
  const { settings } = run.session
  const { traceId, timeoutMs } = run.options
  const body = buildCallBody(target.wire, path, {
    toolId: target.toolId,
    callId,
    input,
    ...(traceId === undefined ? {} : { traceId }),
    ...(context === undefined ? {} : { context }),
  })
  const sending = {
    method: 'POST' as const,
    url: settings.server.base + path,
    headers: async () => ({ ...(await target.headers()), ...callPlaceHeaders(run.options) }),
    body: JSON.stringify(body),
  }
  const rules = { settings, signal, timeoutMs, progress, dedupes: isDeduplicated(run) }
  try {
    return await sendWithRetries(sending, rules)
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error
    throw noAnswerFailure(error, `The call to ${sending.url}`, { ...factsOf(run), advice: doubtOf(run) })
  }
}
