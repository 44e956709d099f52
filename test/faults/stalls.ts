import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { Client } from 'pg'
import type { Kill } from '../crash/call-history.ts'

/** Half of the maximum time between two renewals of a lease; one in three renewals may fail. */
const SLOW_MS = 2_000
const CHECK_INTERVAL_MS = 500
const STALLED = /^stalled ([\d.]+) ([\d.]+)$/gm

/**
 * A fault that the test did not inject: on a busy machine a process or the database stalls. That may cost a lease, which the promise
 * names ("or lost its lease"), so the judges treat it as a pause. On an idle machine there is none.
 */
export function readStalls(folder: string, replicas: number, leaseMs: number): readonly Kill[] {
  return Array.from({ length: replicas }, (_, server) => {
    const log = readFileSync(join(folder, `replica-${server}.log`), { encoding: 'utf8', flag: 'a+' })
    return [...log.matchAll(STALLED)].map(([, from, to]): Kill => {
      const [atMs, endMs] = [Number(from) - performance.timeOrigin, Number(to) - performance.timeOrigin]
      return { server, atMs, untilMs: endMs + leaseMs, kind: 'pause' }
    })
  }).flat()
}

/** Watches the database: queries it repeatedly, without a proxy, until stopped. Injected outages are known anyway. */
export async function watchDatabase(
  url: string,
  {
    replicas,
    leaseMs,
    stop,
  }: { readonly replicas: number; readonly leaseMs: number; readonly stop: AbortSignal },
): Promise<readonly Kill[]> {
  const stalls: Kill[] = []
  while (!stop.aborted) {
    const client = new Client({ connectionString: url, connectionTimeoutMillis: leaseMs }).on(
      'error',
      () => undefined,
    )
    const atMs = performance.now()
    await client
      .connect()
      .then(
        () => client.query('SELECT 1'),
        () => undefined,
      )
      .catch(() => undefined)
    const endMs = performance.now()
    client.end().catch(() => undefined)
    if (endMs - atMs > SLOW_MS)
      for (let server = 0; server < replicas; server += 1)
        stalls.push({ server, atMs, untilMs: endMs + leaseMs, kind: 'pause' })
    await wait(CHECK_INTERVAL_MS, undefined, { signal: stop }).catch(() => undefined)
  }
  return stalls
}
