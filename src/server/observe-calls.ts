import type { CallReply, CallRequest } from '#core/call'
import type { Gateway } from '#core/calls/gateway'
import type { Principal } from '#core/principal'
import type { Clock } from '#core/runtime'
import type { Metrics } from './metrics.ts'
import { requestScope } from './request-scope.ts'

/** Of ids that callers made. */
const LONGEST_ID = 256

export interface ObserveCallsOptions {
  readonly metrics: Metrics
  readonly clock: Clock
}

/** The same gateway, whose calls are counted, timed and named in the request's log line and span. */
export function observeCalls(gateway: Gateway, options: ObserveCallsOptions): Gateway {
  const { metrics, clock } = options

  /** Labels come from the catalog only, so a caller cannot make new ones. */
  const toolOf = (principal: Principal, request: CallRequest): string =>
    gateway.catalogFor(principal).resolve(request.tool)?.id ?? 'unknown'

  const observe = (tool: string, request: CallRequest, reply: CallReply, durationMs: number): void => {
    const outcome = reply.outcome.ok ? 'ok' : reply.outcome.error.code
    metrics.callEnded({ tool, outcome, durationMs, isReplay: reply.replayed })
    const scope = requestScope.getStore()
    if (scope === undefined) return
    const callerTraceId =
      request.traceId === scope.trace.traceId ? undefined : request.traceId?.slice(0, LONGEST_ID)
    const [callId, runId] = [reply.callId.slice(0, LONGEST_ID), reply.runId?.slice(0, LONGEST_ID)]
    scope.call = { tool, outcome, isReplay: reply.replayed, callId, runId, callerTraceId }
  }

  return {
    toolkits: () => gateway.toolkits(),
    catalogChanges: gateway.catalogChanges,
    approvals: gateway.approvals,
    catalogFor: (principal) => gateway.catalogFor(principal),
    readCall: (principal, callId) => gateway.readCall(principal, callId),
    listCalls: (principal, query) => gateway.listCalls(principal, query),
    cancelCall: (principal, callId) => gateway.cancelCall(principal, callId),
    readRun: (principal, query) => gateway.readRun(principal, query),
    admit: (principal) => gateway.admit(principal),
    enterWaiting: (principal) => gateway.enterWaiting(principal),
    endRun: (principal, runId) => gateway.endRun(principal, runId),
    openSession: (principal, request) => gateway.openSession(principal, request),
    closeSession: (principal, sessionId) => gateway.closeSession(principal, sessionId),
    findChallenge: (id) => gateway.findChallenge(id),
    isReady: () => gateway.isReady(),
    async call(principal, request) {
      const startedMs = clock.monotonicMs()
      metrics.callStarted()
      let reply: CallReply | undefined
      try {
        reply = await gateway.call(principal, request)
        return reply
      } finally {
        metrics.callLeft()
        if (reply !== undefined) {
          observe(toolOf(principal, request), request, reply, clock.monotonicMs() - startedMs)
        }
      }
    },
  }
}
