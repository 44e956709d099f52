import { AsyncLocalStorage } from 'node:async_hooks'

/** What a request's log line and span say about the call inside it. Content-free. */
export interface ObservedCall {
  readonly tool: string
  /** `ok`, or the error code. */
  readonly outcome: string
  readonly isReplay: boolean
  /** The caller's own trace id, when it differs from the request's. */
  readonly callerTraceId: string | undefined
}

export interface RequestScope {
  readonly traceId: string
  readonly startedMs: number
  call: ObservedCall | undefined
}

/** Entered only while somebody listens: spans are exported or requests are logged. */
export const requestScope = new AsyncLocalStorage<RequestScope>()
