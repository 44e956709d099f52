import { CALL_STATES, type CallState } from '#kernel/call/call'
import { httpFault } from '#server/http/exchange'
import type { CallFilter } from '#store/call-filter'
import { wholeNumber } from './access.ts'

const DEFAULT_LIMIT = 100
const MAX_LIMIT = 1_000
const MAX_NUMBER = Number.MAX_SAFE_INTEGER
const MAX_TOOL_LENGTH = 300

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

/**
 * `?state=&tenant=&principal=&tool=&since=&until=&slow=&quick=&before=&limit=`: which calls are listed, counted and
 * followed, by the same names everywhere. The command line has them as options.
 */
export function readCallFilter(query: URLSearchParams, nowMs: number, baseOf?: BaseOf): CallFilter {
  const asked = (name: string): string | undefined => query.get(name) || undefined
  const number = (name: string): number | undefined =>
    asked(name) === undefined ? undefined : wholeNumber(query, name, 0, MAX_NUMBER)
  return {
    states: readStates(asked('state')),
    tenant: asked('tenant'),
    principal: asked('principal'),
    tool: readTool(asked('tool'), baseOf),
    sinceMs: readMoment('since', asked('since')),
    untilMs: readMoment('until', asked('until')),
    took: readTook(number('slow'), number('quick'), nowMs),
    before: number('before'),
    limit: readLimit(query.get('limit')),
  }
}

/** Several are separated by commas. */
function readStates(asked: string | undefined): readonly CallState[] | undefined {
  if (asked === undefined) return undefined
  const states = asked.split(',').flatMap((word) => {
    const meant = STATE_WORDS.get(word)
    if (meant !== undefined) return meant
    throw httpFault(400, `\`state\` is one or several of ${[...STATE_WORDS.keys()].join(', ')}.`)
  })
  return [...new Set(states)]
}

/** `Toolkit.Name` of the tool with this name, if there is one: calls are kept by it, whatever else a tool is called. */
export type BaseOf = (name: string) => string | undefined

function readTool(asked: string | undefined, baseOf?: BaseOf): string | undefined {
  if (asked === undefined) return undefined
  if (asked.length > MAX_TOOL_LENGTH)
    throw httpFault(400, `\`tool\` has at most ${MAX_TOOL_LENGTH} characters.`)
  const base = baseOf?.(asked)
  const [, version = ''] = /(@[^@]+)$/.exec(asked) ?? []
  return base === undefined ? asked : base + version
}

function readTook(
  leastMs: number | undefined,
  belowMs: number | undefined,
  nowMs: number,
): CallFilter['took'] {
  if (leastMs === undefined && belowMs === undefined) return undefined
  return { nowMs, leastMs, belowMs }
}

/** A time in a query. */
export function readMoment(name: string, asked: string | undefined): number | undefined {
  if (asked === undefined) return undefined
  const atMs = Date.parse(asked)
  if (Number.isFinite(atMs)) return atMs
  throw httpFault(400, `\`${name}\` is a time like 2026-01-31T10:00:00Z.`)
}

function readLimit(text: string | null): number {
  if (text === null || text === '') return DEFAULT_LIMIT
  const limit = Number(text)
  if (Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT) return limit
  throw httpFault(400, `\`limit\` is a whole number from 1 to ${MAX_LIMIT}.`)
}
