import type { Outcome } from '#core/outcome'
import type { CallState } from '#core/ports/store'

/** What a principal may see of its own call (rule 10). */
export interface CallView {
  readonly callId: string
  readonly record: string
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
