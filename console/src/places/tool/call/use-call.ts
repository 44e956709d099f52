import { useEffect, useRef, useState } from 'react'
import { newCallId } from '../../../api/call-id.ts'
import { fetchResponse, requestJson } from '../../../api/client.ts'
import { nameOf, useSession } from '../../../api/session.ts'
import { runAsHeaders, useRunAs } from '../../../app/person/run-as.tsx'
import type { ToolDetails } from '../tool-data.ts'
import { type CallPhase, carryOut, type FlowOptions, lookUp } from './call-flow.ts'
import { callPath, codeOf, hasNotRun, type SentCall } from './call-wire.ts'
import { type CallOwner, forgetCall, saveCall, savedCall } from './saved-call.ts'

/*
 * Runs one call of a tool at a time, as the signed-in person. `places/tool/call-outcome.tsx` and `places/tool/try-panel.tsx`
 * use it.
 */

export interface CallControl {
  readonly phase: CallPhase
  /** Starts a new call. */
  run(call: SentCall): void
  /** Repeats the call under its id; if its input is not known, looks it up. */
  retry(): void
  /** Sends the input of a waiting call under its id. The server accepts no other input. */
  continueCall(call: SentCall): void
  /** Stops a running call, or gives up one that waits for access. */
  stop(): void
  /** Withdraws a call that waits for approval. Throws if the server did not confirm it. */
  withdraw(): Promise<void>
}

/** One call of a tool at a time, by the signed-in person. */
export function useCall(tool: ToolDetails): CallControl {
  const who = useCaller()
  const owner: CallOwner = { who, tool: tool.id }
  const [phase, setPhase] = useState<CallPhase>(() => phaseBefore(owner))
  const current = useRef<{ readonly call: SentCall; readonly callId: string } | undefined>(undefined)
  const end = useRef(new AbortController())
  useEffect(() => () => end.current.abort(), [])
  // A tool that changes nothing may be called again.
  const isSaved = tool.policy.tier === 'write' || tool.policy.tier === 'exec'

  // Ids belong to one caller: under another name it would be another call, and would run again.
  const sender = useRef(who)
  useEffect(() => {
    if (sender.current === who) return
    sender.current = who
    current.current = undefined
    end.current.abort()
    setPhase((before) => {
      if (before.at === 'idle') return phaseBefore({ who, tool: tool.id })
      return before.at === 'answered' || before.at === 'unresolved'
        ? before
        : { at: 'unresolved', message: NOT_YOURS }
    })
  }, [who, tool.id])

  const flow = (callId: string): FlowOptions => {
    end.current.abort()
    end.current = new AbortController()
    const { signal } = end.current
    return {
      ...{ callId, signal },
      setPhase(next) {
        if (signal.aborted) return
        if (typeof next !== 'function' && (next.at === 'answered' || next.at === 'unresolved'))
          forgetCall(owner)
        setPhase(typeof next === 'function' ? next : (before) => withStop(before, next))
      },
    }
  }
  const begin = (call: SentCall, callId: string, isAgain: boolean): void => {
    current.current = { call, callId }
    if (isSaved) saveCall(owner, { callId, since: new Date() })
    void carryOut(call, flow(callId), isAgain)
  }
  return {
    phase,
    run: (call) => begin(call, newCallId(), false),
    retry() {
      if (current.current !== undefined) begin(current.current.call, current.current.callId, true)
      else if (phase.at === 'lost') void lookUp(flow(phase.callId))
    },
    continueCall(call) {
      if (phase.at === 'resumable') begin(call, phase.callId, true)
    },
    stop() {
      if (phase.at === 'connecting') {
        // It was never recorded.
        end.current.abort()
        forgetCall(owner)
        setPhase({ at: 'idle' })
      }
      if (phase.at !== 'running') return
      setPhase((before) => (before.at === 'running' ? { ...before, isStopping: true } : before))
      void fetchResponse(callPath(phase.callId), { method: 'DELETE', headers: runAsHeaders() }).catch(
        () => undefined,
      )
    },
    async withdraw() {
      if (phase.at !== 'parked' && phase.at !== 'resumable') return
      const { callId } = phase
      const view = await requestJson<unknown>(callPath(callId), { method: 'DELETE', headers: runAsHeaders() })
      const options = flow(callId)
      if (hasNotRun(view)) options.setPhase({ at: 'unresolved', message: WITHDRAWN })
      // It was approved in the meantime.
      else void lookUp(options)
    },
  }
}

const WITHDRAWN = 'You withdrew the call. Nothing ran.'

/** The caller that the server sees: the operator of a server with keys chooses one. */
function useCaller(): string {
  const principal = useSession()?.principal ?? null
  const { caller } = useRunAs()
  if (principal === null) return NO_CALLER
  return principal.isOperator ? (caller ?? NO_CALLER) : nameOf(principal)
}

const NO_CALLER = ''

const NOT_YOURS =
  'That call was made under another name. Check its outcome in Calls before you run the tool again.'

/** A call that this page asked to stop, and that ended cancelled. */
function withStop(before: CallPhase, next: CallPhase): CallPhase {
  const isStopping = before.at === 'running' && before.isStopping === true
  if (!isStopping || next.at !== 'answered' || codeOf(next.answer) !== 'cancelled') return next
  return { ...next, answer: { ...next.answer, isStopped: true } }
}

function phaseBefore(owner: CallOwner): CallPhase {
  const kept = savedCall(owner)
  return kept === undefined ? { at: 'idle' } : { at: 'lost', ...kept, isOld: true }
}
