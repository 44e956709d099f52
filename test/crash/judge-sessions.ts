import type { Kill, PlannedCall, Sending } from './call-history.ts'
import { counterNonce, EFFECT_TOOLS, type Effect } from './effect-log.ts'
import type { Finding } from './finding.ts'
import type { PolledRuns } from './look-at-runs.ts'
import type { StoredEvent, StoredRuns } from './run-history.ts'
import { type DrivenSession, endOf, interruptingKill, killOf } from './session-history.ts'

export interface SessionHistory {
  readonly sessions: readonly DrivenSession[]
  readonly calls: ReadonlyMap<string, PlannedCall>
  readonly sendings: readonly Sending[]
  readonly kills: readonly Kill[]
  readonly effects: readonly Effect[]
  /** From `/events/poll`, after the last restart and before the servers stopped. */
  readonly polled: PolledRuns
  readonly stored: StoredRuns
}

export interface SessionVerdict {
  /** All sessions, including those of single calls. */
  readonly sessions: number
  /** Opened explicitly by a request. */
  readonly named: number
  readonly completed: number
  readonly cancelled: number
  readonly failed: number
  readonly findings: readonly Finding[]
}

/** Everything known about one session. */
interface SessionStory {
  readonly sessionId: string
  readonly driven: DrivenSession | undefined
  /** All events of its run that name it. */
  readonly events: readonly StoredEvent[]
  /** Its events in the journal, in order. */
  readonly journaled: readonly string[]
  readonly outcome: string | undefined
}

/** Checks sessions against the promises (rule 30, OWP-40 to OWP-44). */
export function judgeSessions(history: SessionHistory): SessionVerdict {
  const { sessions, kills } = history
  const stories = collectStories(history)
  const ended = (wanted: string) => stories.filter(({ outcome }) => outcome === wanted).length
  return {
    sessions: stories.length,
    named: sessions.length,
    completed: ended('completed'),
    cancelled: ended('cancelled'),
    failed: ended('failed'),
    findings: [
      ...stories.flatMap((story) => [
        ...judgeBrackets(story),
        ...judgeInside(story),
        ...judgeOutcome(story, kills),
      ]),
      ...sessions.flatMap((session) => judgeClose(session, kills)),
      ...judgeRestart(history),
      ...judgeCalls(history),
    ],
  }
}

function collectStories({ sessions, stored }: SessionHistory): SessionStory[] {
  const driven = new Map(sessions.map((session) => [session.sessionId, session]))
  const events = Map.groupBy([...stored.events.values()].flat(), ({ sessionId }) => sessionId)
  const rows = new Map(stored.sessions.map((row) => [row.sessionId, row]))
  const journal = Map.groupBy(stored.journal, ({ sessionId }) => sessionId)
  const named = [...events.keys()].filter((sessionId) => sessionId !== undefined)
  return [...new Set([...driven.keys(), ...rows.keys(), ...named])].map((sessionId) => ({
    sessionId,
    driven: driven.get(sessionId),
    events: events.get(sessionId) ?? [],
    journaled: (journal.get(sessionId) ?? []).map(({ type }) => type),
    outcome: rows.get(sessionId)?.outcome,
  }))
}

/** One opening and one close, in the run, in the journal, and in the session's row (OWP-41). */
function judgeBrackets({ sessionId, events, journaled, outcome }: SessionStory): Finding[] {
  const reported = events.filter(({ type }) => type.startsWith('session.'))
  // Events of a run are ordered; the journals of several processes, whose clocks may differ, are not.
  const inJournal = journaled.toSorted().toReversed()
  const types = [reported.map(({ type }) => type), inJournal].map((list) => list.join(', '))
  const isOnce = types.every((list) => list === 'session.opened, session.closed')
  const runs = new Set(events.map(({ run }) => run))
  if (isOnce && runs.size === 1 && reported.at(-1)?.outcome === outcome) return []
  const detail = `run: ${types[0]}; journal: ${types[1]}; row: ${outcome}; ${runs.size} runs`
  return [{ breach: 'session not closed once', key: sessionId, detail }]
}

/** A restart closes sessions that the kill left: afterwards only sessions that a caller may still use are open. */
function judgeRestart({ polled, sessions, kills }: SessionHistory): Finding[] {
  const usable = sessions.filter((session) => killOf(session, kills) === undefined)
  const open = new Set<string | undefined>()
  for (const { type, sessionId } of [...polled.values()].flat()) {
    if (type === 'tool.session.opened') open.add(sessionId)
    if (type === 'tool.session.closed') open.delete(sessionId)
  }
  for (const { sessionId, closedAtMs } of usable) if (closedAtMs === undefined) open.delete(sessionId)
  const detail = 'still open after the last restart'
  return [...open].map((sessionId) => ({ breach: 'session not closed once', key: `${sessionId}`, detail }))
}

/** Events of calls are between the opening and the close of their session (OWP-40, OWP-41). */
function judgeInside({ sessionId, events }: SessionStory): Finding[] {
  const opened = events.findIndex(({ type }) => type === 'session.opened')
  const closed = events.findIndex(({ type }) => type === 'session.closed')
  const isInside = opened <= 0 && (closed === -1 || closed === events.length - 1)
  if (isInside) return []
  const detail = events.map(({ type }) => type).join(', ')
  return [{ breach: 'event outside its session', key: sessionId, detail }]
}

/** A session that a crash interrupted has failed: it was not closed yet, or it lost a call. */
function judgeOutcome(
  { sessionId, driven, events, outcome }: SessionStory,
  kills: readonly Kill[],
): Finding[] {
  const kill = driven === undefined ? undefined : killOf(driven, kills)
  const wasOpen = kill !== undefined && (driven?.closeSentAtMs ?? kill.atMs) >= kill.atMs
  const lostCall = events.some(({ code }) => code === 'session_lost')
  // The kill lost the answer that opened it, so no caller could use or close it.
  const isUnused = driven === undefined && !events.some(({ type }) => type === 'called')
  if (outcome === 'failed' || !(wasOpen || lostCall || isUnused)) return []
  return [{ breach: 'cut session not failed', key: sessionId, detail: `closed as ${outcome}` }]
}

/** Without a kill, closing an open session succeeds. */
function judgeClose(session: DrivenSession, kills: readonly Kill[]): Finding[] {
  const { sessionId, closeSentAtMs, closeStatus } = session
  if (closeSentAtMs === undefined || closeStatus === 204) return []
  if (interruptingKill(session, kills) !== undefined) return []
  return [{ breach: 'unexpected reply', key: sessionId, detail: `closing: ${closeStatus}` }]
}

/** Stateful runs count in the state of their own session, and only while it is open. */
function judgeCalls({ calls, sendings, kills, effects }: SessionHistory): Finding[] {
  const sentAt = new Map<string, number>()
  for (const { key, sentAtMs } of sendings) sentAt.set(key, Math.min(sentAtMs, sentAt.get(key) ?? sentAtMs))
  const seen = new Set<string>()
  return effects.flatMap(({ key, nonce }): Finding[] => {
    const call = calls.get(key)
    if (call === undefined || !EFFECT_TOOLS[call.tool].stateful) return []
    const { session } = call
    const isOwnState =
      session === undefined ? nonce.endsWith(counterNonce('', 1)) : nonce.startsWith(`${session.sessionId}#`)
    const isRepeated = seen.has(nonce)
    seen.add(nonce)
    const firstSentAtMs = sentAt.get(key) ?? Number.POSITIVE_INFINITY
    const isLate = session !== undefined && firstSentAtMs > endOf(session, kills)
    return [
      ...(isOwnState && !isRepeated ? [] : [{ breach: 'wrong session state', key, detail: nonce } as const]),
      ...(isLate ? [{ breach: 'call taken after close', key, detail: nonce } as const] : []),
    ]
  })
}
