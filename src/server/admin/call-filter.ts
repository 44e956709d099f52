/**
 * Reads which calls a request is about: lists, counts, streams and rejected requests take one filter with the same names everywhere, and
 * the command line has them as options.
 */
import type { CallFilterQuery } from '#admin-api/calls'
import { CALL_STATES, type CallState } from '#kernel/call/call'
import type { CallFilter } from '#store/call-filter'
import { badRequest } from './admin-route.ts'

/** The states in which a call did not do what was asked. */
export const ERRORS: readonly CallState[] = ['failed', 'released', 'ambiguous']

/** Names requests that were rejected. No call has this state: they are counted, not recorded (`rejections.ts`). */
export const REJECTED = 'rejected'

/** Words of `state`: each state, `error` for all that went wrong, and `rejected`. */
export const STATE_WORDS: ReadonlyMap<string, readonly CallState[]> = new Map([
  ...CALL_STATES.map((state): [string, readonly CallState[]] => [state, [state]]),
  ['error', ERRORS],
  [REJECTED, []],
])

/** Finds `Toolkit.Name` of the tool with this name: calls are kept by it, whatever else a tool is called. */
export type BaseOf = (name: string) => string | undefined

export function toCallFilter(
  query: CallFilterQuery,
  nowMs: number,
  baseOf?: BaseOf,
): Omit<CallFilter, 'limit'> {
  const { state, tenant, principal, tool, since, until, slow, quick } = query
  return {
    states: readStates(state),
    tenant,
    principal,
    tool: tool === undefined ? undefined : baseWithVersion(tool, baseOf),
    sinceMs: parseTime(since),
    untilMs: parseTime(until),
    took: slow === undefined && quick === undefined ? undefined : { nowMs, leastMs: slow, belowMs: quick },
  }
}

/** Several are separated by commas. */
function readStates(text: string | undefined): readonly CallState[] | undefined {
  if (text === undefined) return undefined
  const states = text.split(',').flatMap((word) => {
    const named = STATE_WORDS.get(word)
    if (named !== undefined) return named
    throw badRequest(`state: expected one or several of ${[...STATE_WORDS.keys()].join(', ')}.`)
  })
  return [...new Set(states)]
}

function baseWithVersion(name: string, baseOf?: BaseOf): string {
  const base = baseOf?.(name)
  const [, version = ''] = /(@[^@]+)$/.exec(name) ?? []
  return base === undefined ? name : base + version
}

export function parseTime(text: string): number
export function parseTime(text: string | undefined): number | undefined
export function parseTime(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Date.parse(text)
}
