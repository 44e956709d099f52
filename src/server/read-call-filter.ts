import type { CallFilter, CallState } from '#core/ports/store'
import { httpFault } from './http-fault.ts'

const DEFAULT_LIMIT = 100
const HIGHEST_LIMIT = 1_000
const STATES = {
  parked: 'parked',
  running: 'running',
  succeeded: 'succeeded',
  failed: 'failed',
  released: 'released',
  ambiguous: 'ambiguous',
} as const satisfies Record<CallState, CallState>

/** `?state=&limit=` of the operators' list. */
export function readCallFilter(query: URLSearchParams): CallFilter {
  const limit = readLimit(query.get('limit'))
  const state = query.get('state')
  if (state === null || state === '') return { limit }
  if (!isState(state)) throw httpFault(400, `\`state\` is one of ${Object.keys(STATES).join(', ')}.`)
  return { limit, state }
}

function readLimit(text: string | null): number {
  if (text === null || text === '') return DEFAULT_LIMIT
  const limit = Number(text)
  if (Number.isInteger(limit) && limit >= 1 && limit <= HIGHEST_LIMIT) return limit
  throw httpFault(400, `\`limit\` is a whole number from 1 to ${HIGHEST_LIMIT}.`)
}

function isState(text: string): text is CallState {
  return Object.hasOwn(STATES, text)
}
