import { matchesGlob } from '#kernel/tool/toolsets'
import type { CallFilter, CallGlance } from '#store/ports/operator-store'

/** Which calls somebody follows: what a filter says of calls that are still to come, whenever that is. */
export type FollowedCalls = Omit<CallFilter, 'before' | 'limit'>

/** Whether a filter means this call as it is now: the same as the store's own question, for one that is at hand. */
export function matchesCall(filter: FollowedCalls, call: CallGlance, nowMs: number): boolean {
  return isInState(filter, call) && matchesButState(filter, call, nowMs)
}

/** The same but for its state: it may have been meant a moment ago. */
export function matchesButState(filter: FollowedCalls, call: CallGlance, nowMs: number): boolean {
  const { tenant, principal, tool, sinceMs, untilMs, took } = filter
  const { createdAtMs } = call
  return (
    (tenant === undefined || call.tenant === tenant) &&
    (principal === undefined || call.principal === principal) &&
    (tool === undefined || meansTool(tool, call.tool)) &&
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

/** Every version of a tool where none is named. */
function meansTool(asked: string, tool: string): boolean {
  const [pattern, name] = [spelledTool(asked), spelledTool(tool)]
  return matchesGlob(name, pattern) || matchesGlob(name, `${pattern}@*`)
}

/** One spelling for all: `Crm.Find`, `Crm_Find` and `crm.find`, with or without what a catalog puts before it. */
export function spelledTool(tool: string): string {
  return tool
    .slice(tool.lastIndexOf(':') + 1)
    .replaceAll('.', '_')
    .toLowerCase()
}
