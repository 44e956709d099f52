import { addCall } from './bench-request.ts'
import { startBenchServer } from './bench-server.ts'
import { CONTENDERS } from './contenders.ts'
import { EventReader, type ReadEvents } from './event-reader.ts'
import { type Figure, percentile } from './statistics.ts'

const READERS = 1_000
const CALLS = 100
const RUN = 'followed'
const PATH = `/v1/runs/${RUN}`

/** Events of a run with this many calls, including the first call, which is made before the readers: two per call. */
const EVENTS = 2 * (CALLS + 1)

/** The time from the reply of a call to the arrival of its last event at a reader, and the events delivered per second. */
type FollowersFigures = Readonly<Record<'lag', Figure>>

/** Measures a thousand readers of one run, from before its second call until it has ended. */
export async function measureFollowers(): Promise<FollowersFigures> {
  const server = await startBenchServer(CONTENDERS.sqlite.command, [])
  try {
    const { headers, body } = addCall()
    const url = `http://127.0.0.1:${server.port}`
    const call = async (): Promise<number> => {
      const reply = await fetch(`${url}/tools/call`, {
        method: 'POST',
        headers: { ...headers, 'collet-run': RUN },
        body: JSON.stringify(body),
      })
      await reply.arrayBuffer()
      return performance.now()
    }
    await call()
    const { 'content-type': _, ...credential } = headers
    const readers = Array.from(
      { length: READERS },
      () => new EventReader(server.port, `${PATH}/events`, credential),
    )
    await Promise.all(readers.map(({ opened }) => opened))
    const startedMs = performance.now()
    const repliesMs: number[] = []
    for (let made = 0; made < CALLS; made += 1) repliesMs.push(await call())
    await fetch(`${url}${PATH}`, { method: 'DELETE', headers: credential })
    return summarize(await Promise.all(readers.map(({ ended }) => ended)), { startedMs, repliesMs })
  } finally {
    await server.stop()
  }
}

function summarize(
  read: readonly ReadEvents[],
  { startedMs, repliesMs }: { readonly startedMs: number; readonly repliesMs: readonly number[] },
): FollowersFigures {
  // The first call was made before there were readers, so its events have no delivery time.
  const lags = read.flatMap(({ arrivalsMs }) =>
    repliesMs.map((replyMs, call) => Math.max(0, (arrivalsMs[2 * call + 3] ?? Number.NaN) - replyMs)),
  )
  const sorted = Float64Array.from(lags).sort()
  const lastMs = Math.max(...read.map(({ arrivalsMs }) => arrivalsMs.at(-1) ?? Number.NaN))
  const complete = read.filter(isComplete).length
  if (complete !== READERS)
    throw new Error(`Only ${complete} of ${READERS} readers got every event once and in order.`)
  const [p50Ms, p99Ms] = [percentile(sorted, 0.5), percentile(sorted, 0.99)]
  const requestsPerSecond = (READERS * 2 * CALLS) / ((lastMs - startedMs) / 1_000)
  return { lag: { value: p50Ms, p50Ms, p99Ms, requestsPerSecond } }
}

function isComplete({ sequences }: ReadEvents): boolean {
  return sequences.length === EVENTS && sequences.every((sequence, index) => sequence === index)
}
