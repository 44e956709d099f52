import { useState } from 'react'
import { newCallId } from '../../api/call-id.ts'
import { ApiError, fetchResponse, sessionEnded } from '../../api/client.ts'
import { runAsHeaders } from '../../app/person/run-as.tsx'

/*
 * Makes the call of the start page over OTC, without retries. `try-step.tsx` uses it. Only tools that change nothing are
 * called.
 */

/** The result of a call to a tool that changes nothing. */
export interface Outcome {
  readonly isGood: boolean
  /** The value as JSON, or the error. */
  readonly text: string
  readonly tookMs: number
  readonly record: string | undefined
}

interface TryCall {
  readonly isRunning: boolean
  readonly outcome: Outcome | undefined
  run(tool: string, input: unknown): Promise<void>
}

/** Makes calls over OTC, without retries: a tool that only computes or reads may simply be called again. */
export function useTryCall(): TryCall {
  const [isRunning, setRunning] = useState(false)
  const [outcome, setOutcome] = useState<Outcome>()
  return {
    isRunning,
    outcome,
    async run(tool, input) {
      setRunning(true)
      const startedAt = performance.now()
      try {
        setOutcome(await call(tool, input, startedAt))
      } catch (error) {
        if (!(error instanceof ApiError)) throw error
        const text = `${error.message} Run the tool again later.`
        setOutcome({ isGood: false, text, tookMs: performance.now() - startedAt, record: undefined })
      } finally {
        setRunning(false)
      }
    },
  }
}

interface OtcAnswer {
  readonly result?: {
    readonly success: boolean
    readonly value?: unknown
    readonly error?: { readonly message?: string }
  }
  readonly message?: string
}

async function call(tool: string, input: unknown, startedAt: number): Promise<Outcome> {
  const callId = newCallId()
  const body = { request: { tool_id: tool, call_id: callId, input } }
  const response = await fetchResponse('/tools/call', { method: 'POST', body, headers: runAsHeaders() })
  if (response.status === 401) sessionEnded.set(true)
  const { result, message }: OtcAnswer = await response.json()
  const isGood = result?.success === true
  return {
    isGood,
    tookMs: performance.now() - startedAt,
    text: isGood
      ? JSON.stringify(result.value)
      : (result?.error?.message ?? message ?? 'The call was rejected.'),
    record: result === undefined ? undefined : await recordOf(callId),
  }
}

async function recordOf(callId: string): Promise<string | undefined> {
  const response = await fetchResponse(`/calls/${callId}`, { headers: runAsHeaders() })
  if (!response.ok) return undefined
  const { record }: { readonly record?: string } = await response.json()
  return record
}
