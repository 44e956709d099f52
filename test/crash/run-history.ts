import type { RunEvent } from '#kernel/run/events'

/** An event as a poll or a stream showed it. */
export interface SeenEvent {
  readonly sequence: number
  readonly type: string
  /** The run's key in the store, which event ids carry. */
  readonly runKey: string
  readonly callId: string | undefined
  readonly sessionId: string | undefined
  readonly ok: boolean
}

/** Events of a run that a reader saw, which resumed after each broken connection. */
export interface Reading {
  readonly runId: string
  readonly events: readonly SeenEvent[]
  readonly resumes: number
  /** Whether the server ended the stream by itself. */
  readonly ended: boolean
}

/** An event as the database holds it. */
export interface StoredEvent {
  readonly run: string
  readonly sequence: number
  readonly type: RunEvent['type']
  readonly record: string | undefined
  readonly attempt: number | undefined
  readonly sessionId: string | undefined
  readonly code: string | undefined
  readonly outcome: string | undefined
}

export interface StoredSession {
  readonly sessionId: string
  readonly state: string
  readonly outcome: string | undefined
}

/** Content of the database after the servers have stopped. */
export interface StoredRuns {
  /** By run, in order. */
  readonly events: ReadonlyMap<string, readonly StoredEvent[]>
  readonly sessions: readonly StoredSession[]
  /** The session events of the journal, in commit order. */
  readonly journal: readonly { readonly type: string; readonly sessionId: string }[]
}
