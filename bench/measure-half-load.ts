import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { addCall } from './bench-request.ts'
import { type BenchServer, startBenchServer } from './bench-server.ts'
import { CONTENDERS } from './contenders.ts'
import { applyLoad } from './load.ts'
import { summarizeLoad } from './load-result.ts'
import type { Timing } from './measure-round.ts'
import { RequestBytes } from './request-bytes.ts'
import { ResponseFrame } from './response-frame.ts'
import { type Figure, percentile } from './statistics.ts'

const CONNECTIONS = 64

type HalfLoadFigures = Readonly<Record<'p99Ratio', Figure>>

/**
 * An open loop: requests are sent at fixed times, at half the peak rate of SQLite. A request's time counts from the moment it was due,
 * so a stall shows in every request that was due during it.
 */
export async function measureHalfLoad({ warmUpMs, sliceMs, slices }: Timing): Promise<HalfLoadFigures> {
  const bare = await startBenchServer(CONTENDERS.bare.command)
  try {
    const ours = await startBenchServer(CONTENDERS.sqlite.command)
    try {
      const perSecond = (await peakOf(ours, warmUpMs)) / 2
      const turns = [bare, ours].map((server) => ({ server, timesMs: listOfTimes() }))
      for (const { server } of turns) await sendAtRate(server, perSecond, sliceMs)
      for (let slice = 0; slice < slices; slice += 1) {
        for (const { server, timesMs } of slice % 2 === 0 ? turns : turns.toReversed())
          timesMs.push(...(await sendAtRate(server, perSecond, sliceMs)))
      }
      const [bareTimes, ourTimes] = turns.map(({ timesMs }) => Float64Array.from(timesMs).sort())
      if (bareTimes === undefined || ourTimes === undefined)
        throw new Error('Expected the times of two servers.')
      const [p50Ms, p99Ms] = [percentile(ourTimes, 0.5), percentile(ourTimes, 0.99)]
      const value = p99Ms / percentile(bareTimes, 0.99)
      return { p99Ratio: { value, p50Ms, p99Ms, requestsPerSecond: perSecond } }
    } finally {
      await ours.stop()
    }
  } finally {
    await bare.stop()
  }
}

function listOfTimes(): number[] {
  return []
}

async function peakOf(server: BenchServer, durationMs: number): Promise<number> {
  const request = new RequestBytes(addCall(), server.port)
  const load = { server, request, connections: 32, expectedStatus: 200 }
  await applyLoad({ ...load, durationMs })
  return summarizeLoad([await applyLoad({ ...load, durationMs })]).requestsPerSecond
}

/** A connection with at most one request in flight. */
interface Lane {
  readonly socket: Socket
  dueMs: number
}

/** Latencies of the requests that were due within `durationMs`, until the end of their answers. */
async function sendAtRate(
  server: BenchServer,
  perSecond: number,
  durationMs: number,
): Promise<readonly number[]> {
  const timesMs: number[] = []
  const bytes = new RequestBytes(addCall(), server.port).copy()
  const free: Lane[] = []
  const failed = Promise.withResolvers<never>()
  failed.promise.catch(() => undefined)
  const lanes = Array.from({ length: CONNECTIONS }, () =>
    openLane(server.port, failed.reject, (lane) => {
      timesMs.push(performance.now() - lane.dueMs)
      free.push(lane)
    }),
  )
  try {
    await Promise.all(lanes.map(({ socket }) => once(socket, 'connect')))
    free.push(...lanes)
    const startedMs = performance.now()
    const requests = Math.floor((perSecond * durationMs) / 1_000)
    let sent = 0
    // Timers are inexact by a millisecond, so this loop checks the clock in every turn.
    while (timesMs.length < requests) {
      const nowMs = performance.now()
      for (; sent < requests; sent += 1) {
        const dueMs = startedMs + (sent * 1_000) / perSecond
        const lane = dueMs > nowMs ? undefined : free.pop()
        if (lane === undefined) break
        lane.dueMs = dueMs
        lane.socket.write(bytes)
      }
      await Promise.race([nextTurn(), failed.promise])
    }
    return timesMs
  } finally {
    for (const { socket } of lanes) socket.destroy()
  }
}

function openLane(port: number, fail: (error: Error) => void, answered: (lane: Lane) => void): Lane {
  const frame = new ResponseFrame()
  const socket = connect({ host: '127.0.0.1', port, noDelay: true })
  const lane = { socket, dueMs: 0 }
  socket.on('data', (chunk) => {
    if (!frame.push(chunk, chunk.length)) return
    if (frame.status === 200) answered(lane)
    else fail(new Error(`Expected status 200, got ${frame.status}.`))
  })
  socket.once('error', fail)
  return lane
}
