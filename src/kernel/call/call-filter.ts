import { matchesGlob } from '#kernel/tool/toolsets'
import type { CallFilter, CallGlance } from '#store/ports/operator-store'

/**
 * Matches one call in memory against a filter of the operator's list, for lists that are followed live.
 * It must agree with the query that the store runs for the same filter.
 */

/** A filter for calls that are still to come. */
export type FollowedCalls = Omit<CallFilter, 'before' | 'limit'>

export function matchesCall(filter: FollowedCalls, call: CallGlance, nowMs: number): boolean {
  return isInState(filter, call) && matchesButState(filter, call, nowMs)
}

/** Ignores the state: the call may have matched a moment ago. */
export function matchesButState(filter: FollowedCalls, call: CallGlance, nowMs: number): boolean {
  const { tenant, principal, tool, sinceMs, untilMs, took } = filter
  const { createdAtMs } = call
  return (
    (tenant === undefined || call.tenant === tenant) &&
    (principal === undefined || call.principal === principal) &&
    (tool === undefined || matchesTool(tool, call.tool)) &&
    createdAtMs >= (sinceMs ?? Number.NEGATIVE_INFINITY) &&
    createdAtMs < (untilMs ?? Number.POSITIVE_INFINITY) &&
    (took === undefined || isWithin(took, call, nowMs))
  )
}

function isWithin(
  { leastMs = 0, belowMs = Number.POSITIVE_INFINITY }: NonNullable<CallFilter['took']>,
  { state, createdAtMs, ranMs }: CallGlance,
  nowMs: number,
): boolean {
  const runMs = state === 'running' ? nowMs - createdAtMs : ranMs
  return runMs !== undefined && runMs >= leastMs && runMs < belowMs
}

function isInState({ states }: FollowedCalls, { state }: CallGlance): boolean {
  return states === undefined || states.includes(state)
}

/** Matches every version of a tool unless one is given. */
function matchesTool(asked: string, tool: string): boolean {
  const [pattern, name] = [spelledTool(asked), spelledTool(tool)]
  return matchesGlob(name, pattern) || matchesGlob(name, `${pattern}@*`)
}

/** Normalises `Crm.Find`, `Crm_Find` and `crm.find`, with or without the prefix of a catalog id. */
export function spelledTool(tool: string): string {
  return tool
    .slice(tool.lastIndexOf(':') + 1)
    .replaceAll('.', '_')
    .toLowerCase()
}
