import { BY_CALL_ID } from '#kernel/base/errors'
import { inexactIntegersIn } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { CallReply, CallRequest, Outcome } from '#kernel/call/call'
import type { StageContext } from '#kernel/call/stages'
import { heldElsewhere } from '#kernel/run/session-ends'
import { placeOfSession, type SessionHolder, type Sessions } from './sessions.ts'

/** The way to the process that holds a session. */
export interface Hop {
  /** Where other processes reach this one; `undefined` when they cannot. */
  address(): string | undefined
  /** Rejects with a `HopError` when there is no answer. */
  call(holder: SessionHolder, principal: Principal, request: CallRequest): Promise<CallReply>
  closeSession(holder: SessionHolder, principal: Principal, sessionId: string): Promise<boolean>
}

/** No answer from another process. */
export class HopError extends Error {
  /** Whether it may have begun what it was asked for. */
  readonly mayHaveArrived: boolean

  constructor(message: string, mayHaveArrived: boolean, options?: ErrorOptions) {
    super(message, options)
    this.name = 'HopError'
    this.mayHaveArrived = mayHaveArrived
  }
}

interface ForwardNeeds extends Pick<StageContext, 'store' | 'log' | 'registry' | 'newCallId' | 'callTool'> {
  readonly sessions: Pick<Sessions, 'holds' | 'close'>
  readonly hop: Hop | undefined
}

/**
 * A call of a session is passed on, once, to the process that has the session's state. That one walks the whole story;
 * this one has only let the caller in. Every other call is this process's own.
 */
export function callWhereHeld(
  needs: ForwardNeeds,
  principal: Principal,
  request: CallRequest,
): Promise<CallReply> {
  const { sessionId } = request
  const isRefused = inexactIntegersIn(request.input).length > 0
  if (sessionId === undefined || needs.sessions.holds(sessionId) || isRefused)
    return needs.callTool(principal, request)
  const hop = openHop(needs)
  if (hop === undefined) return needs.callTool(principal, request)
  return callInSession(needs, { hop, principal, request, sessionId })
}

export async function closeWhereHeld(
  needs: ForwardNeeds,
  principal: Principal,
  sessionId: string,
): Promise<boolean> {
  const { sessions, store } = needs
  const hop = openHop(needs)
  if (hop === undefined || sessions.holds(sessionId)) return await sessions.close(principal, sessionId)
  const place = await placeOfSession(store, principal, sessionId)
  if (place.kind !== 'held') return false
  try {
    return await hop.closeSession(place.holder, principal, sessionId)
  } catch (error) {
    if (error instanceof HopError) throw heldElsewhere()
    throw error
  }
}

/** The way there, where others can come back the same way. */
function openHop({ hop }: ForwardNeeds): Hop | undefined {
  return hop?.address() === undefined ? undefined : hop
}

interface SessionCall {
  readonly hop: Hop
  readonly principal: Principal
  readonly request: CallRequest
  readonly sessionId: string
}

async function callInSession(needs: ForwardNeeds, call: SessionCall): Promise<CallReply> {
  const { hop, principal, request, sessionId } = call
  const place = await placeOfSession(needs.store, principal, sessionId)
  // What is over or lost this process can tell, and what was recorded it can answer.
  if (place.kind !== 'held') return await needs.callTool(principal, request)
  const named = { ...request, freshId: request.freshId ?? needs.newCallId() }
  try {
    return await hop.call(place.holder, principal, adapted(needs, principal, named))
  } catch (error) {
    if (!(error instanceof HopError)) throw error
    needs.log.warn({ err: error, session: sessionId }, 'a call could not be passed on')
    return error.mayHaveArrived
      ? await findOut(needs, principal, named)
      : await needs.callTool(principal, request)
  }
}

/** How a protocol reads an input is its own matter, and does not travel. */
function adapted({ registry }: ForwardNeeds, principal: Principal, request: CallRequest): CallRequest {
  const { adapt, input, ...rest } = request
  const tool = adapt === undefined ? undefined : registry.catalogFor(principal).resolve(request.tool)
  if (adapt === undefined || tool === undefined || input === undefined) return { ...rest, input }
  return { ...rest, input: adapt(tool, input) }
}

/**
 * The connection broke, and nobody here knows how far the call came. What was recorded is joined; a call of which there is
 * nothing yet may still begin, so its caller hears neither that it failed nor that it may be repeated (rule 11).
 */
async function findOut(
  needs: ForwardNeeds,
  principal: Principal,
  request: CallRequest & { readonly freshId: string },
): Promise<CallReply> {
  const callId = request.key ?? request.freshId
  const reply = await needs.callTool(principal, { ...request, key: callId })
  return reply.replayed ? reply : { callId, outcome: OUTCOME_UNKNOWN, replayed: false }
}

const OUTCOME_UNKNOWN: Outcome = {
  ok: false,
  error: {
    code: 'outcome_unknown',
    message: `The replica that holds this session stopped answering, so it is not known yet whether the call ran. Do not repeat it${BY_CALL_ID.ask}.`,
    canRetry: false,
  },
}
