import { CALL_ID_ADVICE } from '#kernel/base/errors'
import { inexactIntegersIn } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { CallReply, CallRequest, Outcome } from '#kernel/call/call'
import type { StageContext } from '#kernel/call/stages'
import { heldElsewhere } from '#kernel/run/session-ends'
import { locateSession, type SessionHolder, type Sessions } from './sessions.ts'

/**
 * Forwards a session's calls to the process that holds its state. The session stage uses it; `server/replicas` implements `Hop`.
 * A call is forwarded at most once. The holder runs the whole ladder; this process has only authenticated the caller.
 */

/** The connection to the process that holds a session. */
export interface Hop {
  /** Address at which other processes reach this one; `undefined` if they cannot. */
  address(): string | undefined
  /** Rejects with a `HopError` if there is no answer. */
  call(holder: SessionHolder, principal: Principal, request: CallRequest): Promise<CallReply>
  closeSession(holder: SessionHolder, principal: Principal, sessionId: string): Promise<boolean>
}

/** Another process did not answer. */
export class HopError extends Error {
  /** Whether that process may have started the call. */
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

/** Forwards a call of a session that another process holds; every other call runs here. */
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
  return callInSession(needs, hop, principal, { ...request, sessionId })
}

export async function closeWhereHeld(
  needs: ForwardNeeds,
  principal: Principal,
  sessionId: string,
): Promise<boolean> {
  const { sessions, store } = needs
  const hop = openHop(needs)
  if (hop === undefined || sessions.holds(sessionId)) return await sessions.close(principal, sessionId)
  const location = await locateSession(store, principal, sessionId)
  if (location.kind !== 'held') return false
  try {
    return await hop.closeSession(location.holder, principal, sessionId)
  } catch (error) {
    if (error instanceof HopError) throw heldElsewhere()
    throw error
  }
}

/** Forwarding is used only if other processes can reach this one too. */
function openHop({ hop }: ForwardNeeds): Hop | undefined {
  return hop?.address() === undefined ? undefined : hop
}

async function callInSession(
  needs: ForwardNeeds,
  hop: Hop,
  principal: Principal,
  request: CallRequest & { readonly sessionId: string },
): Promise<CallReply> {
  const { sessionId } = request
  const location = await locateSession(needs.store, principal, sessionId)
  // This process can return recorded outcomes, and report sessions that have ended or are lost.
  if (location.kind !== 'held') return await needs.callTool(principal, request)
  const named = { ...request, freshId: request.freshId ?? needs.newCallId() }
  try {
    return await hop.call(location.holder, principal, adapted(needs, principal, named))
  } catch (error) {
    if (!(error instanceof HopError)) throw error
    needs.log.warn({ err: error, session: sessionId }, 'a call could not be forwarded')
    return error.mayHaveArrived
      ? await joinIfRecorded(needs, principal, named)
      : await needs.callTool(principal, request)
  }
}

/** Adapts the input before forwarding, because the protocol's `adapt` function cannot be forwarded. */
function adapted({ registry }: ForwardNeeds, principal: Principal, request: CallRequest): CallRequest {
  const { adapt, input, ...rest } = request
  const tool = adapt === undefined ? undefined : registry.catalogFor(principal).resolve(request.tool)
  if (adapt === undefined || tool === undefined || input === undefined) return { ...rest, input }
  return { ...rest, input: adapt(tool, input) }
}

/**
 * Called after the connection broke, when it is unknown whether the call arrived. A recorded call is joined. A call without a
 * record may still start, so its caller gets neither a failure nor permission to repeat it (rule 11).
 */
async function joinIfRecorded(
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
    message: `The replica that holds this session stopped answering, so it is not known yet whether the call ran. Do not repeat it${CALL_ID_ADVICE.ask}.`,
    canRetry: false,
  },
}
