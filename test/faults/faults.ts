import { setTimeout as wait } from 'node:timers/promises'
import { Client } from 'pg'
import type { Kill } from '../crash/call-history.ts'
import type { CrashStage } from '../crash/crash-stage.ts'
import { between } from '../crash/seeded-random.ts'
import type { DatabaseProxy } from '../store/postgres-proxy.ts'
import type { PostgresServer } from '../store/postgres-server.ts'

/** Frequency and length of the faults. */
export interface FaultPlan {
  /** Number of calls over which the faults are spread evenly. */
  readonly calls: number
  readonly faults: number
  /** Share of outages that are longer than the lease. */
  readonly longShare: number
  /** Maximum length of the other outages. */
  readonly outageMs: number
}

/** The parts that faults break. */
export interface Breakable {
  readonly stage: CrashStage
  readonly postgres: PostgresServer
  /** The database, without a proxy in between. */
  readonly url: string
  /** One for each replica. */
  readonly networks: readonly DatabaseProxy[]
  /** How long an unreachable replica keeps its claims. */
  readonly leaseMs: number
  readonly plan: FaultPlan
  /** Whether the database has its own disk, which can be filled. */
  readonly hasDisk: boolean
  /** Number of times each fault occurred. */
  readonly counts: Map<FaultName, number>
}

const MAX_HOGS = 200
const STUCK_MS = 120_000
const QUIET_MS = 5_000

const FAULTS = {
  async 'replica killed'(at) {
    const server = pick(at, at.stage.servers.length)
    at.stage.kills.push({ server, atMs: performance.now() })
    await at.stage.servers[server]?.kill()
    await wait(between(at.stage.random, 0, at.plan.outageMs))
    at.stage.servers[server]?.start()
  },
  async 'replica paused'(at) {
    const server = pick(at, at.stage.servers.length)
    const replica = at.stage.servers[server]
    await during(at, [server], { begin: () => replica?.pause(), end: () => replica?.resume() })
  },
  async 'rolling restart'({ stage }) {
    for (const [server, replica] of stage.servers.entries()) {
      const restart: Kill = { server, atMs: performance.now(), kind: 'restart' }
      stage.kills.push(restart)
      await replica.stop()
      replica.start()
      await replica.url()
      restart.untilMs = performance.now()
    }
  },
  async 'database killed'(at) {
    await during(at, everybody(at), {
      begin: () => at.postgres.order('kill'),
      end: () => at.postgres.order('start'),
    })
  },
  async 'database paused'(at) {
    await during(at, everybody(at), {
      begin: () => at.postgres.order('pause'),
      async end() {
        await at.postgres.order('resume')
        await at.postgres.order('start')
      },
    })
  },
  async 'connections dropped'(at) {
    for (const server of everybody(at)) if (at.stage.random() < 0.5) at.networks[server]?.drop()
  },
  async 'commit cut'(at) {
    const when = at.stage.random() < 0.5 ? 'before' : 'after'
    const network = at.networks[pick(at, at.networks.length)]
    if (network !== undefined) network.cut = when
  },
  async 'network slow'(at) {
    const server = pick(at, at.networks.length)
    const network = at.networks[server]
    const ms = Math.ceil(between(at.stage.random, 1, 100))
    const slow = (delayMs: number) => network !== undefined && Object.assign(network, { delayMs })
    await during(at, [server], { begin: () => slow(ms), end: () => slow(0) })
  },
  async 'network cut'(at) {
    const server = pick(at, at.networks.length)
    const network = at.networks[server]
    await during(at, [server], { begin: () => network?.silence(true), end: () => network?.silence(false) })
  },
  async 'disk full'(at) {
    await during(at, everybody(at), {
      begin: () => at.postgres.order('fill'),
      async end() {
        await at.postgres.order('free')
        // PostgreSQL exits if there is not even space for its log.
        await at.postgres.order('start')
      },
    })
  },
  async 'no connection is left'(at) {
    const hogs: Client[] = []
    await during(at, everybody(at), {
      async begin() {
        hogs.push(...(await takeConnections(at.url)))
        for (const network of at.networks) network.drop()
        hogs.push(...(await takeConnections(at.url)))
      },
      end: () => Promise.all(hogs.map((hog) => hog.end().catch(() => undefined))),
    })
  },
} satisfies Readonly<Record<string, (at: Breakable) => Promise<void>>>

export type FaultName = keyof typeof FAULTS
export const FAULT_NAMES = Object.keys(FAULTS).filter(isFault)

export function isFault(name: string): name is FaultName {
  return Object.hasOwn(FAULTS, name)
}

/** Injects the faults in rounds, one at a time, each after enough calls; repairs everything at the end. */
export async function injectFaults(
  at: Breakable,
  names: readonly FaultName[],
  stop: AbortController,
): Promise<void> {
  const { stage, plan, counts } = at
  for (const replica of stage.servers) await replica.url()
  const possible = names.filter((name) => name !== 'disk full' || at.hasDisk)
  for (let order: readonly FaultName[] = [], fault = 0; fault < plan.faults; fault += 1) {
    await untilCalls(at, (plan.calls * fault) / plan.faults, stop.signal)
    if (stop.signal.aborted) return
    if (order.length === 0) order = shuffled(at, possible)
    const [name, ...rest] = order
    if (name === undefined) break
    await FAULTS[name](at)
    counts.set(name, (counts.get(name) ?? 0) + 1)
    order = rest
  }
  await untilCalls(at, plan.calls, stop.signal)
  stop.abort()
  for (const replica of stage.servers) await replica.url()
}

/** Waits until this many calls have begun. While there are no faults, every caller must get an answer. */
async function untilCalls({ stage, postgres }: Breakable, calls: number, signal: AbortSignal): Promise<void> {
  let [seen, sinceMs, lookedAtMs] = [stage.calls.size, performance.now(), performance.now()]
  while (stage.calls.size < calls && !signal.aborted) {
    await wait(20)
    const nowMs = performance.now()
    if (stage.calls.size !== seen) [seen, sinceMs, lookedAtMs] = [stage.calls.size, nowMs, nowMs]
    // As a supervisor does: a database whose disk was full may exit a while later.
    if (nowMs - lookedAtMs > QUIET_MS) {
      await postgres.order('start')
      lookedAtMs = performance.now()
    }
    if (nowMs - sinceMs > STUCK_MS) throw new Error(`no call was begun for ${STUCK_MS} ms`)
  }
}

interface Outage {
  begin(): unknown
  end(): unknown
}

/** Length of one outage; sometimes long enough to cost replicas their leases. */
async function during(at: Breakable, servers: readonly number[], { begin, end }: Outage): Promise<void> {
  const { stage, leaseMs, plan } = at
  const isLong = stage.random() < plan.longShare
  const ms = isLong
    ? between(stage.random, 1.2 * leaseMs, 1.6 * leaseMs)
    : between(stage.random, 50, plan.outageMs)
  const kills = servers.map((server): Kill => ({ server, atMs: performance.now(), kind: 'pause' }))
  stage.kills.push(...kills)
  try {
    await begin()
    await wait(ms)
  } finally {
    await end()
    // A replica whose renewal was late notices it at the next one.
    for (const kill of kills) kill.untilMs = performance.now() + leaseMs
  }
}

async function takeConnections(url: string): Promise<readonly Client[]> {
  const taken: Client[] = []
  while (taken.length < MAX_HOGS) {
    const client = new Client({ connectionString: url }).on('error', () => undefined)
    try {
      await client.connect()
    } catch {
      break
    }
    taken.push(client)
  }
  return taken
}

function everybody({ stage }: Breakable): readonly number[] {
  return [...stage.servers.keys()]
}

function pick({ stage }: Breakable, count: number): number {
  return Math.floor(stage.random() * count)
}

function shuffled<T>({ stage }: Breakable, list: readonly T[]): readonly T[] {
  return list
    .map((item) => ({ item, place: stage.random() }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ item }) => item)
}
