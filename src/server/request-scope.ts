import { AsyncLocalStorage } from 'node:async_hooks'
import type { TraceContext } from './trace-context.ts'

/** What a request's log line and span say about the call inside it. Ids, and nothing of the content. */
export interface ObservedCall {
  readonly tool: string
  /** `ok`, or the error code. */
  readonly outcome: string
  readonly isReplay: boolean
  readonly callId: string
  readonly runId: string | undefined
  /** The caller's own trace id, when it differs from the request's. */
  readonly callerTraceId: string | undefined
}

export interface RequestScope {
  readonly trace: Readonly<TraceContext>
  readonly startedMs: number
  call: ObservedCall | undefined
}

/** Entered only while somebody listens: spans are exported or requests are logged. */
export const requestScope = new AsyncLocalStorage<RequestScope>()
