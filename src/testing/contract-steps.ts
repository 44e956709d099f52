import assert from 'node:assert/strict'
import type { CallRecord, ClaimResult, NewCall, NewSession, RunPlace, Store } from '#core/ports/store'
import type { RunEvent } from '#core/runs/events'
import { attemptAt, success } from './sample-call.ts'

export const DAY_MS = 86_400_000
export const POLICY = { resultsMs: DAY_MS, journalMs: 90 * DAY_MS }

/** What store contracts do over and over. */
export async function mustFind(store: Store, record = 'record-1'): Promise<CallRecord> {
  const found = await store.find({ tenant: 'default', record })
  assert.ok(found, `no call ${record}`)
  return found
}

export async function purgeAll(store: Store, nowMs: number): Promise<void> {
  for (let step = 0; step < 100; step += 1) if (!(await store.purge(nowMs, POLICY))) return
  assert.fail('purging does not end')
}

export function placeAt(runId: string, changes: Partial<RunPlace> = {}): RunPlace {
  return { tenant: 'default', principal: 'key:alice', runId, run: `key of ${runId}`, ...changes }
}

export function sampleSession(sessionId: string, changes: Partial<NewSession> = {}): NewSession {
  return {
    tenant: 'default',
    sessionId,
    principal: 'key:alice',
    tool: 'Doorbell.Ring@0.1.0',
    toolId: 'openwop:Doorbell.Ring',
    place: placeAt('run-a'),
    atMs: 1_000,
    ...changes,
  }
}

/** Claims a call and ends it well. */
export async function runThrough(store: Store, call: NewCall): Promise<ClaimResult> {
  const claimed = await store.claim(call)
  const run = attemptAt(call, 1)
  if (claimed.kind === 'claimed') {
    await store.finish({ run, state: 'succeeded', outcome: success('1'), atMs: call.atMs })
  }
  return claimed
}

/** Every event of a run, page by page; their sequences must count from 0 without gaps (rule 16, OWP-99). */
export async function eventsOf(store: Store, run: string, pageSize = 500): Promise<readonly RunEvent[]> {
  const events: RunEvent[] = []
  for (;;) {
    const page = await store.readRun({ tenant: 'default', run }, events.length - 1, pageSize)
    events.push(...page)
    if (page.length < pageSize) break
  }
  assert.deepEqual(
    events.map(({ sequence }) => sequence),
    events.map((_event, index) => index),
  )
  return events
}

/** One word per event, with whatever it is about. */
export function gistOf(event: RunEvent): string {
  switch (event.type) {
    case 'called':
      return `called ${event.record} ${event.attempt}`
    case 'returned':
      return `returned ${event.record} ${event.attempt} ${event.code ?? 'ok'}`
    case 'session.opened':
      return `opened ${event.sessionId}`
    case 'session.closed':
      return `closed ${event.sessionId} ${event.outcome}`
    case 'interrupt.requested':
      return `asked ${event.record} ${event.attempt}`
    case 'node.suspended':
      return `suspended ${event.record} ${event.attempt}`
    case 'interrupt.resolved':
      return `resolved ${event.record} ${event.action}${event.reason === undefined ? '' : ` ${event.reason}`}`
    case 'consent.requested':
      return `consent asked ${event.record} ${event.provider} ${event.call.callId}`
    case 'consent.suspended':
      return `consent suspended ${event.record}`
    case 'consent.resolved':
      return `consent ${event.action} ${event.record}${event.reason === undefined ? '' : ` ${event.reason}`}`
    case 'connector.authorized':
      return `authorized ${event.provider} ${event.credentialRef}`
    case 'connector.auth_expired':
      return `auth expired ${event.provider}`
    case 'approval.granted':
    case 'approval.rejected':
    case 'approval.overridden':
      return `${event.type} by ${event.by}`
  }
}

export async function gistOfRun(store: Store, run: string): Promise<readonly string[]> {
  return (await eventsOf(store, run)).map(gistOf)
}
