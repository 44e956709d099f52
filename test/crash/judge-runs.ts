import type { FinalCheck } from './call-history.ts'
import type { Finding } from './finding.ts'
import type { PolledRuns } from './look-at-runs.ts'
import type { Reading, SeenEvent, StoredEvent, StoredRuns } from './run-history.ts'

export interface RunHistory {
  /** From `/events/poll`, after the last restart. */
  readonly polled: PolledRuns
  readonly readings: readonly Reading[]
  readonly stored: StoredRuns
  readonly finalChecks: ReadonlyMap<string, readonly FinalCheck[]>
}

export interface RunVerdict {
  readonly runs: number
  readonly events: number
  readonly readers: number
  readonly resumes: number
  readonly findings: readonly Finding[]
}

const WIRE_TYPES = {
  called: 'agent.toolCalled',
  returned: 'agent.toolReturned',
  'session.opened': 'tool.session.opened',
  'session.closed': 'tool.session.closed',
  'interrupt.requested': 'interrupt.requested',
  'node.suspended': 'node.suspended',
  'approval.granted': 'approval.granted',
  'approval.rejected': 'approval.rejected',
  'approval.overridden': 'approval.overridden',
  'interrupt.resolved': 'interrupt.resolved',
  'consent.requested': 'interrupt.requested',
  'consent.suspended': 'node.suspended',
  'consent.resolved': 'interrupt.resolved',
  'connector.authorized': 'connector.authorized',
  'connector.auth_expired': 'connector.auth_expired',
} as const satisfies Record<StoredEvent['type'], string>

/** Checks the events of runs against the promises (rule 16, OWP-48 to OWP-50, OWP-98, OWP-99). */
export function judgeRuns(history: RunHistory): RunVerdict {
  const { polled, readings, stored, finalChecks } = history
  return {
    runs: polled.size,
    events: [...polled.values()].reduce((sum, events) => sum + events.length, 0),
    readers: readings.length,
    resumes: readings.reduce((sum, { resumes }) => sum + resumes, 0),
    findings: [
      ...[...stored.events].flatMap(([run, events]) => [
        ...judgeSequence(run, events),
        ...judgeAttempts(run, events),
      ]),
      ...[...polled].flatMap(([runId, events]) => [
        ...judgeSequence(runId, events),
        ...judgeTurns(runId, events),
        ...judgeStored(runId, events, stored),
      ]),
      ...[...finalChecks].flatMap(([key, looks]) => judgeEnd(key, looks, polled)),
      ...readings.flatMap((reading) => judgeReading(reading, polled, stored)),
    ],
  }
}

function judgeSequence(key: string, events: readonly { readonly sequence: number }[]): Finding[] {
  const position = events.findIndex(({ sequence }, expected) => sequence !== expected)
  if (position === -1) return []
  return [{ breach: 'sequence broken', key, detail: `${events[position]?.sequence} at place ${position}` }]
}

/** Every attempt begins once and then ends once. */
function judgeAttempts(run: string, events: readonly StoredEvent[]): Finding[] {
  const ofCalls = events.filter(({ type }) => type === 'called' || type === 'returned')
  const attempts = Map.groupBy(ofCalls, ({ record, attempt }) => `${record} attempt ${attempt}`)
  return [...attempts].flatMap(([attempt, reported]) => {
    const left = withoutNotRun(reported)
    if (left.map(({ type }) => type).join() === 'called,returned') return []
    const types = reported
      .map(({ type, code }) => (code === undefined ? type : `${type} (${code})`))
      .join(', ')
    return [{ breach: 'call not returned once', key: run, detail: `${attempt}: ${types}` }]
  })
}

/** A step that was cut and settled as not run begins again as if it never had; it may be cut once more. */
function withoutNotRun(reported: readonly StoredEvent[]): readonly StoredEvent[] {
  const before = reported.slice(0, -1)
  const cut = before.findLastIndex(({ type, code }) => type === 'returned' && code === 'ambiguous')
  return reported.slice(cut + 1)
}

/** As readers see it, without attempts: calls and returns of one id alternate. */
function judgeTurns(runId: string, events: readonly SeenEvent[]): Finding[] {
  const calls = Map.groupBy(
    events.filter(({ callId }) => callId !== undefined),
    ({ callId }) => callId,
  )
  return [...calls].flatMap(([callId, reported]) => {
    const inTurn = reported.every(
      ({ type }, position) => type === WIRE_TYPES[position % 2 === 0 ? 'called' : 'returned'],
    )
    if (inTurn && reported.length % 2 === 0) return []
    const types = reported.map(({ type }) => type).join(', ')
    return [{ breach: 'call not returned once', key: runId, detail: `${callId}: ${types}` }]
  })
}

/** Polled events equal the stored ones; a run that exists only as its call's record has none stored. */
function judgeStored(runId: string, events: readonly SeenEvent[], stored: StoredRuns): Finding[] {
  const kept = stored.events.get(events[0]?.runKey ?? '')
  if (kept === undefined && events.every(({ sessionId }) => sessionId === undefined)) return []
  const differs = firstDifference(events, kept?.slice(0, events.length) ?? [])
  return differs === undefined ? [] : [{ breach: 'poll and store differ', key: runId, detail: differs }]
}

/** The run of a call ends with the outcome that its caller got. */
function judgeEnd(key: string, looks: readonly FinalCheck[], polled: PolledRuns): Finding[] {
  const reply = looks.at(-1)?.reply
  if (reply?.runId === undefined || reply.status !== 200) return []
  const end = polled
    .get(reply.runId)
    ?.findLast(({ callId, type }) => callId === key && type === WIRE_TYPES.returned)
  if (end?.ok === reply.success) return []
  const reported = end === undefined ? 'no end' : `ok ${end.ok}`
  return [{ breach: 'run ends differently', key, detail: `${reported} in ${reply.runId}, but ${reply.body}` }]
}

/** A reader that resumed has seen every event once and in order. */
function judgeReading(reading: Reading, polled: PolledRuns, stored: StoredRuns): Finding[] {
  const { runId: key, events, ended } = reading
  const run = polled.get(key)?.[0]?.runKey ?? ''
  const differs = firstDifference(events, stored.events.get(run) ?? [])
  return [
    ...(differs === undefined ? [] : [{ breach: 'reader missed events', key, detail: differs } as const]),
    ...(ended ? [] : [{ breach: 'stream not ended', key, detail: `${events.length} events` } as const]),
  ]
}

function firstDifference(seen: readonly SeenEvent[], stored: readonly StoredEvent[]): string | undefined {
  const reported = seen.map(({ sequence, type }) => `${sequence} ${type}`)
  const kept = stored.map(({ sequence, type }) => `${sequence} ${WIRE_TYPES[type]}`)
  const length = Math.max(reported.length, kept.length)
  const position = Array.from({ length }).findIndex((_, index) => reported[index] !== kept[index])
  return position === -1
    ? undefined
    : `saw ${reported[position] ?? 'nothing'}, stored ${kept[position] ?? 'nothing'}`
}
