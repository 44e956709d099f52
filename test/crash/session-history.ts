import type { Kill } from './call-history.ts'

/** A session the driver opened, and what it did to it since. Times are the driver's own, in milliseconds. */
export interface DrivenSession {
  readonly sessionId: string
  readonly runId: string
  /** Its state lives there. */
  readonly server: number
  readonly openSentAtMs: number
  readonly openedAtMs: number
  closeSentAtMs: number | undefined
  /** When the server said that it is closed. */
  closedAtMs: number | undefined
  closeStatus: number | undefined
}

/** The kill that took the session's state, unless it was closed before. */
export function killOf(session: DrivenSession, kills: readonly Kill[]): Kill | undefined {
  return disturbanceOf(
    session,
    kills.filter(({ kind }) => kind === undefined),
  )
}

/** The first thing that may have taken it: a pause may cost the lease, and a server that is asked to leave closes its sessions. */
export function disturbanceOf(session: DrivenSession, kills: readonly Kill[]): Kill | undefined {
  return kills.find(
    ({ server, atMs, untilMs }) => server === session.server && (untilMs ?? atMs) >= session.openSentAtMs,
  )
}

/** Whether the driver must count on the session being gone at this time. */
export function mayHaveEnded(session: DrivenSession, kills: readonly Kill[], atMs: number): boolean {
  const endedAtMs = Math.min(
    session.closeSentAtMs ?? Number.POSITIVE_INFINITY,
    disturbanceOf(session, kills)?.atMs ?? Number.POSITIVE_INFINITY,
  )
  return endedAtMs <= atMs
}

/** From when on the session must take nothing more. */
export function endOf(session: DrivenSession, kills: readonly Kill[]): number {
  return Math.min(
    session.closedAtMs ?? Number.POSITIVE_INFINITY,
    killOf(session, kills)?.atMs ?? Number.POSITIVE_INFINITY,
  )
}
