/** Asks for state to be kept across calls of one tool. */
export interface SessionRequest {
  /** The tool by any of its names. */
  readonly toolId: string
  /** The run to belong to, already checked by `checkRunId`; absent = a new one. */
  readonly runId?: string
  /** Calls must come for the same user (rule 30). */
  readonly userId?: string
}

export interface OpenedSession {
  readonly sessionId: string
  readonly runId: string
}
