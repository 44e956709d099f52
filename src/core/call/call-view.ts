import type { Outcome } from '#core/outcome'
import type { CallState } from '#core/ports/store'
import type { CallProtocol } from './call-request.ts'

/** What a principal may see of its own call (rule 10). */
export interface CallView {
  readonly callId: string
  readonly record: string
  readonly runId: string
  readonly traceId: string
  readonly protocol: CallProtocol | undefined
  /** As its caller said it. */
  readonly userId: string | undefined
  readonly tool: string
  readonly state: CallState
  readonly attempt: number
  readonly createdAtMs: number
  readonly finishedAtMs: number | undefined
  readonly outcome: Outcome | undefined
  readonly expired: boolean
  /** Somebody else wrote what the outcome says (OWP-58). */
  readonly untrusted?: true
}

export interface CallsQuery {
  /** What the page before gave; absent: from the newest on. */
  readonly cursor?: string
  readonly limit: number
}

export interface CallsPage {
  readonly calls: readonly CallView[]
  /** Where to go on; absent when there is nothing more. Pages may be short, or empty, and still have one. */
  readonly cursor?: string
}
