import { setTimeout as wait } from 'node:timers/promises'
import { z } from 'zod'
import { isFinal, type Reply } from '../crash/call-history.ts'
import { readState, sendCall } from '../crash/call-server.ts'
import { addressOf, type CrashStage, pickProtocol, pickServer } from '../crash/crash-stage.ts'
import type { Effect } from '../crash/effect-log.ts'
import type { Address } from '../crash/exchange.ts'
import type { Finding } from '../crash/finding.ts'
import { pollRun } from '../crash/run-server.ts'
import type { ReadRows } from '../crash/stored-rows.ts'
import { neighbourKeyOf } from './replica.ts'

const TOOL = 'Effect.Write@1.0.0'
const MAX_LOOKS = 100

/** Answers to a caller of another tenant, by the id that it shares with a call of the first tenant. */
export type NeighbourReplies = Map<string, Reply>

/** A caller in another tenant that uses the same ids as the first, as clients that count their calls do. */
export async function callAsNeighbour(
  stage: CrashStage,
  replies: NeighbourReplies,
  stop: AbortSignal,
): Promise<void> {
  while (!stop.aborted) {
    const callId = [...stage.calls.keys()].at(-1)
    if (callId === undefined || replies.has(callId)) {
      await wait(stage.pace.retryDelayMs)
      continue
    }
    const reply = await deliver(stage, callId, stop)
    if (reply !== undefined) replies.set(callId, reply)
  }
}

async function deliver(stage: CrashStage, callId: string, stop: AbortSignal): Promise<Reply | undefined> {
  const call = { tool: TOOL, runId: undefined, session: undefined, input: { key: effectKeyOf(callId) } }
  for (let sending = 0; sending < stage.pace.maxSendings && !stop.aborted; sending += 1) {
    const address = await neighbourAddress(stage)
    const reply = await sendCall(address, callId, call, pickProtocol(stage))
    if (reply !== undefined && isFinal(reply)) return reply
    await wait(stage.pace.retryDelayMs)
  }
  return undefined
}

export interface NeighbourVerdict {
  readonly calls: number
  readonly looks: number
  readonly findings: readonly Finding[]
}

/** Checks, while the servers run, that the other tenant can see none of the first tenant's calls and runs. */
export async function lookAsNeighbour(
  stage: CrashStage,
  replies: NeighbourReplies,
): Promise<NeighbourVerdict> {
  const address = await neighbourAddress(stage)
  const calls = [...stage.calls.keys()].filter((key) => !replies.has(key)).slice(0, MAX_LOOKS)
  const runs = [...stage.runs].slice(0, MAX_LOOKS)
  const findings: Finding[] = []
  for (const key of calls) {
    const state = await readState(address, key)
    // A call that was cut off at the end of the test may be its own.
    if (state !== undefined && state !== 'ambiguous')
      findings.push(mixed(key, `the other tenant sees it as ${state}`))
  }
  for (const run of runs) {
    if ((await pollRun(address, run)) !== undefined)
      findings.push(mixed(run, 'the other tenant reads its events'))
  }
  return { calls: replies.size, looks: calls.length + runs.length, findings }
}

const ROW = z.object({ key: z.string() })
/** Related rows that belong to different tenants. */
const MIXED_ROWS = [
  'SELECT c.record AS key FROM calls c JOIN runs r ON r.key = c.run WHERE r.tenant <> c.tenant',
  'SELECT a.id AS key FROM approvals a JOIN calls c ON c.record = a.record WHERE a.tenant <> c.tenant',
  'SELECT s.id AS key FROM sessions s JOIN runs r ON r.key = s.run WHERE r.tenant <> s.tenant',
  'SELECT c.record AS key FROM calls c JOIN sessions s ON s.id = c.session WHERE s.tenant <> c.tenant',
  'SELECT c.record AS key FROM calls c JOIN calls p ON p.record = c.parent WHERE p.tenant <> c.tenant',
]

/** Each tenant's outcomes are those of its own effects, and no row of one points at a row of the other. */
export async function judgeNeighbours(
  replies: NeighbourReplies,
  effects: readonly Effect[],
  rows: ReadRows,
): Promise<readonly Finding[]> {
  const nonces = Map.groupBy(effects, ({ key }) => key)
  const findings: Finding[] = []
  for (const [callId, { success, value }] of replies) {
    const own = nonces.get(effectKeyOf(callId)) ?? []
    if (own.length > 1) findings.push({ breach: 'effect twice', key: effectKeyOf(callId), detail: TOOL })
    if (success && !own.some(({ nonce }) => nonce === value)) {
      findings.push(mixed(callId, `the other tenant got ${value}, which is not its own`))
    }
  }
  for (const sql of MIXED_ROWS) {
    for (const row of await rows(sql)) findings.push(mixed(ROW.parse(row).key, sql))
  }
  return findings
}

function effectKeyOf(callId: string): string {
  return `neighbour:${callId}`
}

async function neighbourAddress(stage: CrashStage): Promise<Address> {
  const server = pickServer(stage, Math.floor(stage.random() * stage.servers.length))
  return { ...(await addressOf(stage, server)), apiKey: neighbourKeyOf(stage.apiKey) }
}

function mixed(key: string, detail: string): Finding {
  return { breach: 'tenants mixed', key, detail }
}
