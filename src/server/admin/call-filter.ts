/**
 * Reads the filter of a request for calls. The list, the counts and the stream of calls share it with the list of rejected requests,
 * and the command line offers its members as options.
 */
import type { CallFilterQuery } from '#admin-api/calls'
import { defined } from '#kernel/base/json'
import { CALL_STATES, type CallState } from '#kernel/call/call'
import type { CallFilter, CallSearch } from '#store/call-filter'
import { badRequest } from './admin-route.ts'

export const ERRORS: readonly CallState[] = ['failed', 'released', 'ambiguous']

/** Selects rejected requests. No call has this state, because rejected requests are counted, not recorded (`rejections.ts`). */
export const REJECTED = 'rejected'

/** Values of `state`: each state, `error` for all in `ERRORS`, and `rejected`. */
export const STATE_WORDS: ReadonlyMap<string, readonly CallState[]> = new Map([
  ...CALL_STATES.map((state): [string, readonly CallState[]] => [state, [state]]),
  ['error', ERRORS],
  [REJECTED, []],
])

/** Takes the name of a tool in any protocol; returns `Toolkit.Name`, the id under which its calls are recorded. */
export type BaseOf = (name: string) => string | undefined

export function toCallFilter(
  query: Partial<CallFilterQuery>,
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
    search: readSearch(query),
    took: slow === undefined && quick === undefined ? undefined : { nowMs, minMs: slow, belowMs: quick },
  }
}

const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/

function readSearch({
  id,
  code,
  protocol,
  parent,
  ...query
}: Partial<CallFilterQuery>): CallSearch | undefined {
  const { call_id: callId, run: runId, session: sessionId, user: userId, trace, error: message } = query
  const traceId = trace === undefined ? undefined : traceOf(trace)
  const search: CallSearch = defined({
    ...{ callId, runId, sessionId, userId, traceId, protocol, parent, code, message },
    id: id === undefined ? undefined : traceOf(id),
  })
  return Object.keys(search).length === 0 ? undefined : search
}

/** The trace id in a `traceparent` header; any other text unchanged. */
function traceOf(text: string): string {
  return TRACEPARENT.exec(text)?.[1] ?? text.trim()
}

function readStates(text: string | undefined): readonly CallState[] | undefined {
  if (text === undefined) return undefined
  const states = text.split(',').flatMap((word) => {
    const named = STATE_WORDS.get(word)
    if (named !== undefined) return named
    throw badRequest(`state: expected one or more of ${[...STATE_WORDS.keys()].join(', ')}.`)
  })
  return [...new Set(states)]
}

function baseWithVersion(name: string, baseOf?: BaseOf): string {
  const base = baseOf?.(name)
  const [, version = ''] = /(@[^@]+)$/.exec(name) ?? []
  return base === undefined ? name : base + version
}

export function parseTime(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Date.parse(text)
}
