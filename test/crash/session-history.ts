import type { Kill } from './call-history.ts'

/** A session that the driver opened, and its later requests. Times are the driver's, in milliseconds. */
export interface DrivenSession {
  readonly sessionId: string
  readonly runId: string
  /** The server that holds its state. */
  readonly server: number
  readonly openSentAtMs: number
  readonly openedAtMs: number
  closeSentAtMs: number | undefined
  /** When the server reported the close. */
  closedAtMs: number | undefined
  closeStatus: number | undefined
}

/** The kill that destroyed the session's state, unless it was closed before. */
export function killOf(session: DrivenSession, kills: readonly Kill[]): Kill | undefined {
  return interruptingKill(
    session,
    kills.filter(({ kind }) => kind === undefined),
  )
}

/** The first event that may have ended it: a pause may cost the lease, and a server that is asked to stop closes its sessions. */
export function interruptingKill(session: DrivenSession, kills: readonly Kill[]): Kill | undefined {
  return kills.find(
    ({ server, atMs, untilMs }) => server === session.server && (untilMs ?? atMs) >= session.openSentAtMs,
  )
}

/** Whether the session may have ended by this time. */
export function mayHaveEnded(session: DrivenSession, kills: readonly Kill[], atMs: number): boolean {
  const endedAtMs = Math.min(
    session.closeSentAtMs ?? Number.POSITIVE_INFINITY,
    interruptingKill(session, kills)?.atMs ?? Number.POSITIVE_INFINITY,
  )
  return endedAtMs <= atMs
}

/** The time from which the session must accept no more calls. */
export function endOf(session: DrivenSession, kills: readonly Kill[]): number {
  return Math.min(
    session.closedAtMs ?? Number.POSITIVE_INFINITY,
    killOf(session, kills)?.atMs ?? Number.POSITIVE_INFINITY,
  )
}
