import assert from 'node:assert/strict'
import { parseToolId } from '#kernel/base/ids'
import type { Outcome } from '#kernel/call/call'
import type {
  Attempt,
  CallRecord,
  ClaimResult,
  NewCall,
  NewSession,
  RefusedCall,
  RunScope,
} from '#kernel/call/call-record'
import type { RunEvent } from '#kernel/run/events'
import type { Tool, ToolPolicy } from '#kernel/tool/tool'
import type { Store } from '#store/collet-store'
import type { ContractCase } from './contract-case.ts'

const SAMPLE_POLICY: ToolPolicy = {
  safetyTier: 'write',
  replay: 'non-deterministic',
  approval: 'never',
  scopes: [],
  timeoutMs: 5_000,
  rerunWindowMs: 3_600_000,
}

export type SampleTool = Partial<Omit<Tool, 'policy'>> & { readonly policy?: Partial<ToolPolicy> }

/** A prepared tool without a schema library: accepts any object, returns any value. */
export function sampleTool(id: string, run: Tool['run'], changes: SampleTool = {}): Tool {
  const parts = parseToolId(id)
  if (parts === undefined) throw new Error(`'${id}' is not a tool id`)
  return {
    id,
    parts,
    name: parts.base.replace('.', '_'),
    catalogId: `openwop:${parts.base}`,
    description: 'A tool for tests.',
    source: 'node-pack',
    inputSchema: {},
    outputSchema: {},
    definitionHash: `definition of ${id}`,
    checkInput: () => [],
    parseInput: (input) => ({ ok: true, input }),
    checkOutput: () => [],
    run,
    ...changes,
    policy: { ...SAMPLE_POLICY, ...changes.policy },
  }
}

/** One case of a store's contract, on its own store. */
export function it(name: string, check: (store: Store) => Promise<void>): ContractCase<Store> {
  return { name, run: async (open) => check(await open()) }
}

export const DAY_MS = 86_400_000
export const POLICY = { resultsMs: DAY_MS, journalMs: 90 * DAY_MS }

/** Common steps of store contracts. */
export async function mustFind(store: Store, record = 'record-1'): Promise<CallRecord> {
  const found = await store.find({ tenant: 'default', record })
  assert.ok(found, `no call ${record}`)
  return found
}

export async function purgeAll(store: Store, nowMs: number): Promise<void> {
  for (let step = 0; step < 100; step += 1) if (!(await store.purge(nowMs, POLICY))) return
  assert.fail('purging does not end')
}

export function scopeAt(runId: string, changes: Partial<RunScope> = {}): RunScope {
  return { tenant: 'default', principal: 'key:alice', runId, run: `key of ${runId}`, ...changes }
}

export function sampleSession(sessionId: string, changes: Partial<NewSession> = {}): NewSession {
  return {
    tenant: 'default',
    sessionId,
    principal: 'key:alice',
    tool: 'Doorbell.Ring@0.1.0',
    toolId: 'openwop:Doorbell.Ring',
    scope: scopeAt('run-a'),
    address: 'http://10.0.0.7:4101',
    atMs: 1_000,
    ...changes,
  }
}

/** Claims a call and ends it successfully. */
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

/** A short text per event: its kind and its subject. */
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

/** A call as the pipeline would write it, for store tests. */
export function sampleCall(changes: Partial<NewCall> = {}): NewCall {
  return {
    tenant: 'default',
    record: 'record-1',
    principal: 'key:alice',
    callId: 'call-1',
    toolId: 'openwop:Doorbell.Ring',
    transport: 'native',
    argsHash: '0'.repeat(64),
    scope: undefined,
    session: undefined,
    traceId: 'trace-1',
    protocol: 'otc',
    userId: undefined,
    fingerprint: 'fingerprint-1',
    tool: 'Doorbell.Ring@0.1.0',
    definitionHash: 'definition-1',
    tier: 'write',
    replay: 'non-deterministic',
    rerunUntilMs: 0,
    inputJson: '{"doorbell_id":"doorbell42"}',
    atMs: 1_000,
    ...changes,
  }
}

/** A call that a limit refused, in a run. */
export function sampleRefusal(
  changes: Partial<RefusedCall> & { readonly scope: RefusedCall['scope'] },
): RefusedCall {
  return {
    tenant: 'default',
    record: 'record-1',
    principal: 'key:alice',
    callId: 'call-1',
    toolId: 'openwop:Doorbell.Ring',
    transport: 'native',
    argsHash: '0'.repeat(64),
    sessionId: undefined,
    traceId: 'trace-1',
    userId: undefined,
    tool: 'Doorbell.Ring@0.1.0',
    code: 'rate_limited',
    atMs: 1_000,
    ...changes,
  }
}

export function attemptAt(call: NewCall, attempt: number): Attempt {
  const { tenant, record, principal, tool, scope, session } = call
  const ownRun = session === undefined && attempt === 1 ? undefined : record
  return { tenant, record, principal, tool, attempt, run: scope?.run ?? ownRun, session }
}

export function success(valueJson: string): Outcome {
  return { ok: true, valueJson, durationMs: 1.5 }
}

export function failure(canRetry: boolean): Outcome {
  return {
    ok: false,
    error: { code: 'tool_failed', message: 'The bell is broken.', canRetry },
    durationMs: 2,
  }
}
