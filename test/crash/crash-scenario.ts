import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { approveCalls } from './approve-calls.ts'
import { checkJournal, type JournalCheck } from './check-journal.ts'
import { CRASH_PACE, type CrashStage } from './crash-stage.ts'
import { readEffects } from './effect-log.ts'
import type { Finding } from './finding.ts'
import { type ApprovalVerdict, judgeApprovals, readSteps } from './judge-approvals.ts'
import { type FlowVerdict, judgeFlows } from './judge-flows.ts'
import { judgeHistory, type Verdict } from './judge-history.ts'
import { judgeRuns, type RunVerdict } from './judge-runs.ts'
import { judgeSessions, type SessionVerdict } from './judge-sessions.ts'
import { type KillPlan, killRepeatedly } from './kill-repeatedly.ts'
import { endReadings, pollRuns } from './look-at-runs.ts'
import { lookLast } from './look-last.ts'
import { makeCalls } from './make-calls.ts'
import { readStoredRuns } from './read-stored-runs.ts'
import { finishFlows, runFlows } from './run-flows.ts'
import { seededRandom } from './seeded-random.ts'
import { crashServer, ServerProcess } from './server-process.ts'
import { sqliteRows } from './stored-rows.ts'
import { useSessions } from './use-sessions.ts'

const CALLERS = 12
const SESSION_CALLERS = 6
const FLOW_CALLERS = 4

export interface CrashOptions extends KillPlan {
  /** Server processes on the one SQLite file; only the first is killed. */
  readonly writers: 1 | 2
  readonly seed: number
}

export interface CrashResult {
  readonly verdict: Verdict
  readonly sessions: SessionVerdict
  readonly runs: RunVerdict
  readonly approvals: ApprovalVerdict
  readonly flows: FlowVerdict
  readonly journal: JournalCheck
}

export function findingsOf({ verdict, sessions, runs, approvals, flows }: CrashResult): readonly Finding[] {
  return [verdict, sessions, runs, approvals, flows].flatMap(({ findings }) => findings)
}

/** Calls, kills, restarts, looks, and judges. Leaves no process and no file behind. */
export async function runCrashScenario(options: CrashOptions): Promise<CrashResult> {
  const folder = mkdtempSync(join(tmpdir(), 'collet-crash-'))
  const masterKey = randomBytes(32).toString('base64')
  const stage = setStage(options, folder, masterKey)
  const approving = new AbortController()
  try {
    for (const server of stage.servers) server.start()
    const approver = approveCalls(stage, approving.signal)
    // A server that broke is reported by whoever waits for it.
    approver.catch(() => {})
    await callAndKill(stage, options, folder)
    const finished = await finishFlows(stage, folder)
    const lastLooks = await lookLast(stage)
    approving.abort()
    await approver
    const polled = await pollRuns(stage, lastLooks)
    const readings = await endReadings(stage, polled)
    await stopAll(stage)
    const effects = readEffects(join(folder, 'effects.log'))
    const file = join(folder, 'collet.db')
    const rows = sqliteRows(file)
    const stored = await readStoredRuns(rows)
    return {
      verdict: judgeHistory({ ...stage, effects, lastLooks }),
      sessions: judgeSessions({ ...stage, effects, polled, stored }),
      runs: judgeRuns({ polled, readings, stored, lastLooks }),
      approvals: judgeApprovals(await readSteps(rows)),
      flows: judgeFlows({ ...stage, finished, effects }),
      journal: await checkJournal(`sqlite:${file}`, masterKey, folder),
    }
  } finally {
    approving.abort()
    stage.leave.abort()
    await stopAll(stage)
    rmSync(folder, { recursive: true, force: true })
  }
}

function setStage(options: CrashOptions, folder: string, masterKey: string): CrashStage {
  const apiKey = randomBytes(32).toString('hex')
  const servers = Array.from(
    { length: options.writers },
    (_, index) =>
      new ServerProcess(crashServer({ folder, masterKey, apiKey, seed: options.seed + index * 1_000 })),
  )
  return {
    servers,
    apiKey,
    ways: ['otc'],
    pace: CRASH_PACE,
    random: seededRandom(options.seed),
    calls: new Map(),
    sendings: [],
    kills: [],
    sessions: [],
    runs: new Set(),
    flows: new Map(),
    settled: [],
    readings: new Map(),
    leave: new AbortController(),
  }
}

/** The first failure stops everyone, and nobody is left running when it is reported. */
async function callAndKill(stage: CrashStage, plan: KillPlan, folder: string): Promise<void> {
  const stop = new AbortController()
  const callers = [
    ...Array.from({ length: CALLERS }, () => makeCalls(stage, stop.signal)),
    ...Array.from({ length: SESSION_CALLERS }, () => useSessions(stage, stop.signal)),
    ...Array.from({ length: FLOW_CALLERS }, () => runFlows(stage, folder, stop.signal)),
  ]
  const ends = [killRepeatedly(stage, plan, stop), ...callers].map((end) =>
    end.catch((error: unknown) => {
      stop.abort()
      throw error
    }),
  )
  await Promise.allSettled(ends)
  await Promise.all(ends)
}

async function stopAll(stage: CrashStage): Promise<void> {
  await Promise.all(stage.servers.map((server) => server.stop()))
}
