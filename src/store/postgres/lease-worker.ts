import { setTimeout as wait } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { Connection, Reconnector, type Statement } from './connection.ts'
import {
  type LeaseOrder,
  type LeaseReply,
  type LeaseThreadData,
  monotonicMs,
  NOW_MS,
  SLOTS,
} from './lease.ts'

/**
 * Worker thread that renews the leases of this process (`lease.ts`). It does not renew while the main thread is blocked, and never
 * renews an expired lease: another process may have declared its writer dead (rule 18).
 */

const RENEW = `UPDATE writers SET lease_until = ${NOW_MS} + $2 WHERE no = $1 AND lease_until > ${NOW_MS}
  RETURNING ${NOW_MS} AS now`

const CHECKS_PER_LEASE = 20

interface RenewedLease {
  readonly slots: BigInt64Array
  lastTick: bigint
}

const { url, leaseMs }: LeaseThreadData = workerData
const options = { name: 'collet lease', maxSilenceMs: leaseMs / 2 }
const reconnector = new Reconnector(() => Connection.open(url, options))
const leases = new Map<number, RenewedLease>()

parentPort?.on('message', (order: LeaseOrder) => void handleOrder(order))
for (;;) {
  await wait(leaseMs / CHECKS_PER_LEASE)
  await Promise.all([...leases.values()].map(renewWhenDue))
}

async function handleOrder({ id, memory }: LeaseOrder): Promise<void> {
  if (memory === undefined) return void leases.delete(id)
  const lease = { slots: new BigInt64Array(memory), lastTick: -1n }
  try {
    // Reads the clock before the first lease: a server with a wrong clock must not run calls.
    await queryTime(lease, { text: `SELECT ${NOW_MS} AS now` })
    leases.set(id, lease)
    parentPort?.postMessage({ id } satisfies LeaseReply)
  } catch (error) {
    parentPort?.postMessage({ id, error } satisfies LeaseReply)
  }
}

/** A failed renewal is tried again at the next check; the main thread sees the age of the last successful renewal. */
async function renewWhenDue(lease: RenewedLease): Promise<void> {
  try {
    if (isDue(lease)) await renew(lease)
  } catch {}
}

function isDue({ slots, lastTick }: RenewedLease): boolean {
  const writer = Atomics.load(slots, SLOTS.writer)
  const isHeld = writer !== 0n && writer !== Atomics.load(slots, SLOTS.lost)
  // A blocked main thread must not look alive.
  const isMainAlive = Atomics.load(slots, SLOTS.tick) !== lastTick
  const sinceMs = monotonicMs() - Number(Atomics.load(slots, SLOTS.renewedAt))
  return isHeld && isMainAlive && sinceMs >= leaseMs / 3
}

async function renew(lease: RenewedLease): Promise<void> {
  const { slots } = lease
  const writer = Atomics.load(slots, SLOTS.writer)
  const previousMs = Number(Atomics.load(slots, SLOTS.renewedAt))
  lease.lastTick = Atomics.load(slots, SLOTS.tick)
  const sentAtMs = monotonicMs()
  const values = [Number(writer), leaseMs]
  const isRenewed = await queryTime(lease, { name: 'renewLease', text: RENEW, values })
  // The answer is not for a writer that started in the meantime.
  if (Atomics.load(slots, SLOTS.writer) !== writer) return
  if (!isRenewed) {
    Atomics.store(slots, SLOTS.lost, writer)
    return
  }
  Atomics.store(slots, SLOTS.renewedAt, BigInt(sentAtMs))
  if (sentAtMs - previousMs > leaseMs / 2) {
    Atomics.store(slots, SLOTS.quietUntil, BigInt(Math.round(monotonicMs() + leaseMs)))
  }
}

/** Returns whether a row came back, and stores the database time from it. */
async function queryTime({ slots }: RenewedLease, statement: Statement): Promise<boolean> {
  const connection = await reconnector.current()
  const sentAtMs = monotonicMs()
  const [row] = (await connection.one(statement)).rows
  if (row === undefined) return false
  const zeroMs = Number(row.now) - (sentAtMs + monotonicMs()) / 2
  Atomics.store(slots, SLOTS.databaseZero, BigInt(Math.round(zeroMs)))
  return true
}
