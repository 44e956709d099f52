import type { OpenedSession } from '#kernel/call/stages'
import { type Batch, type CallPlan, visibleTool } from './differential-calls.ts'
import type { Circumstances } from './differential-differences.ts'
import type { Labels } from './differential-labels.ts'
import { functionNameOf, type Way } from './differential-lanes.ts'
import type { Answer } from './differential-observation.ts'

/** One lane after all calls were made over it in sequence. */
export interface Played {
  readonly way: Way
  readonly answers: readonly (Answer | undefined)[]
  readonly labels: Labels
  readonly sessions: ReadonlyMap<string, OpenedSession & { readonly caller: number }>
}

const NO_SESSION = 'ses_that-never-was'

/** The session id that a call names, in the sessions of its lane. */
export function sessionOf({ caller, session }: CallPlan, sessions: Played['sessions']): string | undefined {
  if (session === undefined) return undefined
  if (session.startsWith('@')) {
    const others = [...sessions].filter(
      ([name, one]) => one.caller !== caller && name.endsWith(` ${session.slice(1)}`),
    )
    return others[0]?.[1].sessionId ?? NO_SESSION
  }
  return sessions.get(`${caller} ${session}`)?.sessionId ?? NO_SESSION
}

/** The inputs for the differences of a lane. */
export function circumstances(batch: Batch, call: CallPlan, { protocol }: Way): Circumstances {
  const tool = visibleTool(
    batch,
    protocol === 'opentool' || protocol === 'mcp' ? { ...call, suffix: '' } : call,
  )
  return { call, tool, functionName: functionNameOf(batch, call) }
}
