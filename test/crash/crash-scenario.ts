import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { approveCalls } from './approve-calls.ts'
import { checkFinalState } from './check-final-state.ts'
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
import { makeCalls } from './make-calls.ts'
import { readStoredRuns } from './read-stored-runs.ts'
import { finishFlows, runFlows } from './run-flows.ts'
import { seededRandom } from './seeded-random.ts'
import { crashServer, ServerProcess } from './server-process.ts'
import { type ReadRows, sqliteRows } from './stored-rows.ts'
import { useSessions } from './use-sessions.ts'

/** Concurrent callers of each kind. */
export interface Callers {
  readonly calls: number
  readonly sessions: number
  readonly flows: number
}

const CALLERS: Callers = { calls: 12, sessions: 6, flows: 4 }

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

export function findingsOf(result: CrashResult & { readonly neighbours?: Judged }): readonly Finding[] {
  const { verdict, sessions, runs, approvals, flows, neighbours } = result
  return [verdict, sessions, runs, approvals, flows, neighbours].flatMap((judged) => judged?.findings ?? [])
}

interface Judged {
  readonly findings: readonly Finding[]
}

/** Calls, kills, restarts, checks the final state, and judges. Leaves no process and no file behind. */
export async function runCrashScenario(options: CrashOptions): Promise<CrashResult> {
  const { writers, seed } = options
  const folder = mkdtempSync(join(tmpdir(), 'collet-crash-'))
  const masterKey = randomBytes(32).toString('base64')
  const apiKey = randomBytes(32).toString('hex')
  const servers = Array.from(
    { length: writers },
    (_, index) => new ServerProcess(crashServer({ folder, masterKey, apiKey, seed: seed + index * 1_000 })),
  )
  const stage = newStage({
    servers,
    apiKey,
    protocols: ['otc'],
    pace: CRASH_PACE,
    random: seededRandom(seed),
  })
  const file = join(folder, 'collet.db')
  const scenario = {
    stage,
    folder,
    masterKey,
    store: `sqlite:${file}`,
    rows: sqliteRows(file),
    callers: CALLERS,
  }
  try {
    return await runScenario(scenario, (stop) => killRepeatedly(stage, options, stop))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

type StageParts = Pick<CrashStage, 'servers' | 'apiKey' | 'protocols' | 'pace' | 'random'>

/** The state of a scenario before its first call. */
export function newStage(parts: StageParts): CrashStage {
  return {
    ...parts,
    calls: new Map(),
    sendings: [],
    kills: [],
    sessions: [],
    runs: new Set(),
    flows: new Map(),
    settled: [],
    readings: new Map(),
    ended: new Set(),
    leave: new AbortController(),
  }
}

/** A scenario: its state and its environment. */
export interface Scenario {
  readonly stage: CrashStage
  /** Holds the log of effects. */
  readonly folder: string
  readonly masterKey: string
  readonly store: string
  readonly rows: ReadRows
  readonly callers: Callers
  /** Adds further facts about the run, once its servers have stopped. */
  learn?(): Promise<void>
}

/** Starts the servers, calls until `disturb` ends, checks the final state, and judges. Leaves no server behind. */
export async function runScenario(
  { stage, folder, masterKey, store, rows, callers, learn }: Scenario,
  disturb: (stop: AbortController) => Promise<void>,
): Promise<CrashResult> {
  const approving = new AbortController()
  try {
    for (const server of stage.servers) server.start()
    const approver = approveCalls(stage, approving.signal)
    // A broken server is reported by the code that waits for it.
    approver.catch(() => {})
    const stop = new AbortController()
    await allOrNone(stop, [
      disturb(stop),
      ...Array.from({ length: callers.calls }, () => makeCalls(stage, stop.signal)),
      ...Array.from({ length: callers.sessions }, () => useSessions(stage, stop.signal)),
      ...Array.from({ length: callers.flows }, () => runFlows(stage, folder, stop.signal)),
    ])
    const finished = await finishFlows(stage, folder)
    const finalChecks = await checkFinalState(stage)
    approving.abort()
    await approver
    const polled = await pollRuns(stage, finalChecks)
    const readings = await endReadings(stage, polled)
    await stopAll(stage)
    await learn?.()
    const effects = readEffects(join(folder, 'effects.log'))
    const stored = await readStoredRuns(rows)
    return {
      verdict: judgeHistory({ ...stage, effects, finalChecks }),
      sessions: judgeSessions({ ...stage, effects, polled, stored }),
      runs: judgeRuns({ polled, readings, stored, finalChecks }),
      approvals: judgeApprovals(await readSteps(rows)),
      flows: judgeFlows({ ...stage, finished, effects }),
      journal: await checkJournal(store, masterKey, folder),
    }
  } finally {
    approving.abort()
    stage.leave.abort()
    await stopAll(stage)
  }
}

/** The first failure stops all processes before it is reported. */
async function allOrNone(stop: AbortController, all: readonly Promise<void>[]): Promise<void> {
  const ends = all.map((end) =>
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
