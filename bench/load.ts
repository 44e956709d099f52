import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { RequestBytes } from './request-bytes.ts'
import { ResponseFrame } from './response-frame.ts'
import { percentile } from './statistics.ts'

export interface LoadOptions {
  readonly port: number
  readonly request: RequestBytes
  readonly connections: number
  readonly durationMs: number
  /** Any other status is an error, and one error fails the measurement. */
  readonly expectedStatus: number
}

export interface LoadResult {
  readonly requestsPerSecond: number
  readonly requests: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Share of the time the generator itself was busy; near 1 it measures itself, not the server. */
  readonly generatorBusy: number
}

const READ_BUFFER_BYTES = 64 * 1024

/** Closed loop: every connection sends its next request when the answer to the last one is complete. */
export async function applyLoad(options: LoadOptions): Promise<LoadResult> {
  const latencies: number[] = []
  const busyBefore = performance.eventLoopUtilization()
  const startedAt = performance.now()
  const deadline = startedAt + options.durationMs
  await Promise.all(
    Array.from({ length: options.connections }, () => runConnection(options, deadline, latencies)),
  )
  const seconds = (performance.now() - startedAt) / 1000
  const sorted = Float64Array.from(latencies).sort()
  return {
    requestsPerSecond: latencies.length / seconds,
    requests: latencies.length,
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    generatorBusy: performance.eventLoopUtilization(busyBefore).utilization,
  }
}

async function runConnection(options: LoadOptions, deadline: number, latencies: number[]): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const frame = new ResponseFrame()
  const bytes = options.request.copy()
  let sentAt = 0

  const send = (): void => {
    options.request.stamp(bytes)
    sentAt = performance.now()
    socket.write(bytes)
  }
  const receive = (length: number, buffer: Buffer): boolean => {
    if (!frame.push(buffer, length)) return true
    const now = performance.now()
    latencies.push(now - sentAt)
    if (frame.status !== options.expectedStatus) {
      reject(new Error(`Expected status ${options.expectedStatus}, got ${frame.status}.`))
    } else if (now < deadline) send()
    else resolve()
    return true
  }
  const socket = openSocket(options.port, receive)
  socket.once('error', reject)
  socket.once('close', () => reject(new Error('The server closed the connection under load.')))
  try {
    await once(socket, 'connect')
    send()
    await promise
  } finally {
    socket.destroy()
  }
}

/** One read buffer per connection: nothing is allocated for received bytes. */
function openSocket(port: number, receive: (length: number, buffer: Buffer) => boolean): Socket {
  const buffer = Buffer.allocUnsafe(READ_BUFFER_BYTES)
  const socket = connect({
    host: '127.0.0.1',
    port,
    noDelay: true,
    onread: { buffer, callback: (length) => receive(length, buffer) },
  })
  return socket
}
