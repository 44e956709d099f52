import { describe, expect, it } from 'vitest'
import type { Breach } from './finding.ts'
import { judgeSessions, type SessionHistory } from './judge-sessions.ts'
import type { SeenEvent, StoredEvent } from './run-history.ts'
import type { DrivenSession } from './session-history.ts'

const SESSION = 's1'
const NOTHING = { record: undefined, attempt: undefined, code: undefined, outcome: undefined }

function reported(type: StoredEvent['type'], more: Partial<StoredEvent> = {}): StoredEvent {
  return { run: 'k', sequence: 0, type, sessionId: SESSION, ...NOTHING, ...more }
}

function seen(type: string, sequence: number): SeenEvent {
  return { sequence, type, runKey: 'k', callId: undefined, sessionId: SESSION, ok: false }
}

const OPENED = reported('session.opened')
const CLOSED = reported('session.closed', { outcome: 'completed' })
const FAILED = reported('session.closed', { outcome: 'failed' })
const CALL = [reported('called'), reported('returned')]
const JOURNAL = ['session.opened', 'session.closed']

interface Story extends Partial<Pick<SessionHistory, 'kills' | 'effects'>> {
  readonly driven?: Partial<DrivenSession> | 'by nobody'
  readonly events?: readonly StoredEvent[]
  readonly journal?: readonly string[]
  readonly polled?: readonly string[]
  readonly sentAtMs?: number
}

/** One session with one call, closed by its owner, except for what the test changes. */
function breaches(story: Story): readonly Breach[] {
  const session: DrivenSession = {
    sessionId: SESSION,
    runId: 'run-0',
    server: 0,
    openSentAtMs: 1,
    openedAtMs: 2,
    closeSentAtMs: 20,
    closedAtMs: 21,
    closeStatus: 204,
    ...(story.driven === 'by nobody' ? {} : story.driven),
  }
  const events = story.events ?? [OPENED, ...CALL, CLOSED]
  const outcome = events.findLast(({ type }) => type === 'session.closed')?.outcome
  const sentAtMs = story.sentAtMs ?? 10
  return judgeSessions({
    sessions: story.driven === 'by nobody' ? [] : [session],
    calls: new Map([['call-0', { tool: 'Effect.Counter@1.0.0', runId: undefined, session }]]),
    sendings: [{ key: 'call-0', server: 0, sentAtMs, endedAtMs: sentAtMs + 1, reply: undefined }],
    kills: story.kills ?? [],
    effects: story.effects ?? [{ key: 'call-0', nonce: 's1#1' }],
    polled: new Map([['run-0', (story.polled ?? []).map(seen)]]),
    stored: {
      events: new Map([['k', events]]),
      sessions: [{ sessionId: SESSION, state: 'closed', outcome }],
      journal: (story.journal ?? JOURNAL).map((type) => ({ type, sessionId: SESSION })),
    },
  }).findings.map(({ breach }) => breach)
}

describe('judgeSessions', () => {
  const unclosed = { closeSentAtMs: undefined, closedAtMs: undefined, closeStatus: undefined }
  const kills = [{ server: 0, atMs: 15 }]

  it('finds nothing in a session that opened, served and closed', () => {
    expect(breaches({})).toEqual([])
  })

  it('finds a session that was closed never or twice (OWP-41)', () => {
    expect(breaches({ events: [OPENED, ...CALL] })).toEqual(['session not closed once'])
    expect(breaches({ events: [OPENED, ...CALL, CLOSED, CLOSED] })).toContain('session not closed once')
    expect(breaches({ journal: ['session.opened'] })).toEqual(['session not closed once'])
    expect(breaches({ events: [] })).toEqual(['session not closed once'])
  })

  it('finds a session that is still open after the restart, unless a caller may use it', () => {
    const polled = ['tool.session.opened']
    expect(breaches({ polled })).toEqual(['session not closed once'])
    expect(breaches({ polled, driven: unclosed })).toEqual([])
    expect(breaches({ polled, driven: 'by nobody' })).toEqual(['session not closed once'])
    expect(breaches({ polled: [...polled, 'tool.session.closed'] })).toEqual([])
    const events = [OPENED, ...CALL, FAILED]
    expect(breaches({ polled, driven: unclosed, kills, events })).toEqual(['session not closed once'])
  })

  it('finds a call with events before its session opens or after it closes (OWP-40)', () => {
    const outside = ['event outside its session']
    expect(breaches({ events: [...CALL, OPENED, CLOSED] })).toEqual(outside)
    expect(breaches({ events: [OPENED, CLOSED, ...CALL] })).toEqual(outside)
  })

  it('requires that sessions interrupted by a kill have failed', () => {
    expect(breaches({ driven: unclosed, kills })).toEqual(['cut session not failed'])
    expect(breaches({ driven: unclosed, kills, events: [OPENED, ...CALL, FAILED] })).toEqual([])
    const lost = [OPENED, reported('called'), reported('returned', { code: 'session_lost' }), CLOSED]
    expect(breaches({ events: lost })).toEqual(['cut session not failed'])
    expect(breaches({ driven: 'by nobody', events: [OPENED, CLOSED] })).toEqual(['cut session not failed'])
  })

  it('finds a call that ran although its session was closed or killed before', () => {
    expect(breaches({ sentAtMs: 30 })).toEqual(['call taken after close'])
    const events = [OPENED, ...CALL, FAILED]
    expect(breaches({ sentAtMs: 16, driven: unclosed, kills, events })).toEqual(['call taken after close'])
    expect(breaches({ sentAtMs: 30, effects: [] })).toEqual([])
  })

  it('finds state of another session, and a repeated count', () => {
    expect(breaches({ effects: [{ key: 'call-0', nonce: 's2#1' }] })).toEqual(['wrong session state'])
    const effect = { key: 'call-0', nonce: 's1#1' }
    expect(breaches({ effects: [effect, effect] })).toEqual(['wrong session state'])
  })

  it('finds a close that was refused without a kill', () => {
    expect(breaches({ driven: { closeStatus: 404 } })).toEqual(['unexpected reply'])
    const events = [OPENED, ...CALL, FAILED]
    expect(breaches({ driven: { closeStatus: 404 }, kills, events })).toEqual([])
  })
})
