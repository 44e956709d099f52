import { setTimeout as wait } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { Connection, Line, type Statement } from './connection.ts'
import {
  type LeaseOrder,
  type LeaseReply,
  type LeaseThreadData,
  monotonicMs,
  NOW_MS,
  PLACES,
} from './lease.ts'

/**
 * Worker thread that renews the leases of this process (`lease.ts`). It does not renew while the main thread stands still, and never
 * renews an expired lease: another process may have declared its writer dead (rule 18).
 */

const RENEW = `UPDATE writers SET lease_until = ${NOW_MS} + $2 WHERE no = $1 AND lease_until > ${NOW_MS}
  RETURNING ${NOW_MS} AS now`

const LOOKS_PER_LEASE = 20

interface Held {
  readonly places: BigInt64Array
  lastTick: bigint
}

const { url, leaseMs }: LeaseThreadData = workerData
const line = new Line(() => Connection.open(url, { name: 'collet lease', maxSilenceMs: leaseMs / 2 }))
const leases = new Map<number, Held>()

parentPort?.on('message', (order: LeaseOrder) => void take(order))
for (;;) {
  await wait(leaseMs / LOOKS_PER_LEASE)
  await Promise.all([...leases.values()].map(renewWhenDue))
}

async function take({ id, memory }: LeaseOrder): Promise<void> {
  if (memory === undefined) return void leases.delete(id)
  const held = { places: new BigInt64Array(memory), lastTick: -1n }
  try {
    // Reads the clock before the first lease: a server with a wrong clock must not run calls.
    await ask(held, { text: `SELECT ${NOW_MS} AS now` })
    leases.set(id, held)
    parentPort?.postMessage({ id } satisfies LeaseReply)
  } catch (error) {
    parentPort?.postMessage({ id, error } satisfies LeaseReply)
  }
}

/** A failed renewal is tried again at the next look; the main thread sees the age of the last one. */
async function renewWhenDue(held: Held): Promise<void> {
  try {
    if (isDue(held)) await renew(held)
  } catch {}
}

function isDue({ places, lastTick }: Held): boolean {
  const writer = Atomics.load(places, PLACES.writer)
  const isHeld = writer !== 0n && writer !== Atomics.load(places, PLACES.lost)
  // A main thread that stands still must not look alive.
  const isMainAlive = Atomics.load(places, PLACES.tick) !== lastTick
  const sinceMs = monotonicMs() - Number(Atomics.load(places, PLACES.renewedAt))
  return isHeld && isMainAlive && sinceMs >= leaseMs / 3
}

async function renew(held: Held): Promise<void> {
  const { places } = held
  const writer = Atomics.load(places, PLACES.writer)
  const previousMs = Number(Atomics.load(places, PLACES.renewedAt))
  held.lastTick = Atomics.load(places, PLACES.tick)
  const sentAtMs = monotonicMs()
  const isRenewed = await ask(held, { name: 'renewLease', text: RENEW, values: [Number(writer), leaseMs] })
  // The answer is not for a writer that started in the meantime.
  if (Atomics.load(places, PLACES.writer) !== writer) return
  if (!isRenewed) {
    Atomics.store(places, PLACES.lost, writer)
    return
  }
  Atomics.store(places, PLACES.renewedAt, BigInt(sentAtMs))
  if (sentAtMs - previousMs > leaseMs / 2) {
    Atomics.store(places, PLACES.quietUntil, BigInt(Math.round(monotonicMs() + leaseMs)))
  }
}

/** Whether a row came back; it holds the time of the database. */
async function ask({ places }: Held, statement: Statement): Promise<boolean> {
  const connection = await line.current()
  const sentAtMs = monotonicMs()
  const [row] = (await connection.one(statement)).rows
  if (row === undefined) return false
  const zeroMs = Number(row.now) - (sentAtMs + monotonicMs()) / 2
  Atomics.store(places, PLACES.databaseZero, BigInt(Math.round(zeroMs)))
  return true
}
