import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isFinal, PROTOCOLS } from '../crash/call-history.ts'
import { type Callers, type CrashResult, newStage, runScenario } from '../crash/crash-scenario.ts'
import type { CrashStage } from '../crash/crash-stage.ts'
import { readEffects } from '../crash/effect-log.ts'
import { seededRandom } from '../crash/seeded-random.ts'
import { postgresRows } from '../crash/stored-rows.ts'
import { type DatabaseProxy, startProxy } from '../store/postgres-proxy.ts'
import { startPostgres } from '../store/postgres-server.ts'
import { type Breakable, FAULT_NAMES, type FaultName, type FaultPlan, injectFaults } from './faults.ts'
import {
  callAsNeighbour,
  judgeNeighbours,
  lookAsNeighbour,
  type NeighbourReplies,
  type NeighbourVerdict,
} from './neighbours.ts'
import { makeReplica, writeConfig } from './replica.ts'
import { readStalls, watchDatabase } from './stalls.ts'

export interface FaultOptions {
  readonly seed: number
  readonly replicas: number
  /** Default: all. */
  readonly only?: readonly FaultName[]
  readonly callers: Callers
  readonly plan: FaultPlan
  /** Called with the progress from time to time. */
  readonly onProgress?: (progress: string) => void
  /** Folder for the logs of the replicas; absent: none are kept. */
  readonly logs?: string
}

export interface FaultResult extends CrashResult {
  readonly neighbours: NeighbourVerdict
  readonly counts: ReadonlyMap<FaultName, number>
  /** Number of times a replica or the database stalled without an injected fault. */
  readonly stalls: number
  readonly seconds: number
}

/** The lease of a writer (rule 18). */
const LEASE_MS = 10_000
/** Clock offset of the last replica, below the limit at which it refuses to serve. */
const CLOCK_MS = 700
/** Far fewer connections than the hogs request, and enough for the replicas. */
const MAX_CONNECTIONS = 40
const READERS = 40
const PROGRESS_INTERVAL_MS = 10_000
const CALLS_PER_RUN = 40

/** Three replicas of one database, all faults, and the judges of the crash test. Leaves nothing behind. */
export async function runFaultScenario(options: FaultOptions): Promise<FaultResult> {
  const startedMs = performance.now()
  const folder = mkdtempSync(join(tmpdir(), 'collet-faults-'))
  const hasDisk = canHaveDisk()
  const disk = hasDisk ? { diskMb: 256 + Math.ceil(options.plan.calls / 150) } : {}
  const settings = [`max_connections=${MAX_CONNECTIONS}`, 'max_wal_size=64MB', 'min_wal_size=32MB']
  const postgres = await startPostgres({ settings, ...disk })
  const networks: DatabaseProxy[] = []
  try {
    const url = await postgres.createDatabase('faults')
    for (let index = 0; index < options.replicas; index += 1) {
      networks.push(await startProxy(url))
    }
    const masterKey = randomBytes(32).toString('base64')
    const stage = setReplicas(options, { folder, masterKey, networks })
    const at: Breakable = {
      stage,
      postgres,
      url,
      networks,
      leaseMs: LEASE_MS,
      hasDisk,
      counts: new Map(),
      plan: options.plan,
    }
    const replies: NeighbourReplies = new Map()
    let looked: NeighbourVerdict | undefined
    const progressTimer = setInterval(
      () => options.onProgress?.(progressOf(at)),
      PROGRESS_INTERVAL_MS,
    ).unref()
    const runFaults = async (stop: AbortController): Promise<void> => {
      await Promise.all([
        injectFaults(at, options.only ?? FAULT_NAMES, stop),
        callAsNeighbour(stage, replies, stop.signal),
      ])
      looked = await lookAsNeighbour(stage, replies)
    }
    const rows = postgresRows(url)
    const { replicas } = options
    const left = new AbortController()
    const watching = watchDatabase(url, { replicas, leaseMs: LEASE_MS, stop: left.signal })
    let stalls = 0
    const learn = async (): Promise<void> => {
      left.abort()
      const found = [...readStalls(folder, replicas, LEASE_MS), ...(await watching)]
      stalls = found.length
      stage.kills.push(...found)
      stage.kills.sort((one, other) => one.atMs - other.atMs)
    }
    const scenario = { stage, folder, masterKey, store: url, rows, callers: options.callers, learn }
    const result = await runScenario(scenario, runFaults).finally(() => {
      clearInterval(progressTimer)
      left.abort()
    })
    const findings = await judgeNeighbours(replies, readEffects(join(folder, 'effects.log')), rows)
    const { calls = 0, looks = 0, findings: seen = [] } = looked ?? {}
    return {
      ...result,
      neighbours: { calls, looks, findings: [...seen, ...findings] },
      counts: at.counts,
      stalls,
      seconds: (performance.now() - startedMs) / 1_000,
    }
  } catch (error) {
    throw new Error(`seed ${options.seed}: ${String(error)}\n${stderrTail(folder, options.replicas)}`, {
      cause: error,
    })
  } finally {
    for (const network of networks) network.close()
    if (options.logs !== undefined) keepLogs(folder, options.logs)
    await postgres.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

function progressOf({ stage, counts }: Breakable): string {
  const faults = [...counts.values()].reduce((sum, count) => sum + count, 0)
  const answered = stage.sendings.filter(({ reply }) => reply !== undefined && isFinal(reply)).length
  const listening = stage.servers.filter(({ listening }) => listening).length
  return `${stage.calls.size} calls, ${stage.sendings.length} requests, ${answered} with an outcome, ${faults} faults, ${listening} replicas`
}

interface Place {
  readonly folder: string
  readonly masterKey: string
  readonly networks: readonly DatabaseProxy[]
}

function setReplicas(options: FaultOptions, { folder, masterKey, networks }: Place): CrashStage {
  const { seed, replicas } = options
  const { calls } = options.plan
  const apiKey = randomBytes(32).toString('hex')
  const config = writeConfig(folder, apiKey)
  const servers = networks.map((network, index) => {
    const clockMs = index === replicas - 1 ? CLOCK_MS : 0
    return makeReplica({ folder, config, store: network.url, masterKey, seed, clockMs }, index)
  })
  const pace = {
    replyLimitMs: LEASE_MS,
    retryDelayMs: 50,
    maxSendings: 2_000,
    readerEvery: Math.max(3, Math.ceil(calls / CALLS_PER_RUN / READERS)),
    looks: calls > 10_000 ? 1 : replicas,
  }
  return newStage({ servers, apiKey, protocols: PROTOCOLS, pace, random: seededRandom(seed) })
}

/** Whether the database can have its own disk, which needs bubblewrap. */
export function canHaveDisk(): boolean {
  const tried = spawnSync('bwrap', [
    '--unshare-user',
    '--dev-bind',
    '/',
    '/',
    '--size',
    '4096',
    '--tmpfs',
    '/tmp',
    'true',
  ])
  return tried.status === 0
}

function keepLogs(folder: string, target: string): void {
  mkdirSync(target, { recursive: true })
  for (const name of readdirSync(folder)) {
    if (name.endsWith('.log')) copyFileSync(join(folder, name), join(target, name))
  }
}

function stderrTail(folder: string, replicas: number): string {
  return Array.from({ length: replicas }, (_, index) => {
    const log = readFileSync(join(folder, `replica-${index}.log`), { encoding: 'utf8', flag: 'a+' })
    return `replica ${index}: …${log.slice(-600)}`
  }).join('\n')
}
