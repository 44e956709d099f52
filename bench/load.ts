import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { BenchServer } from './bench-server.ts'
import type { RequestBytes } from './request-bytes.ts'
import { ResponseFrame } from './response-frame.ts'

export interface LoadOptions {
  readonly server: Pick<BenchServer, 'port' | 'cpuMs'>
  readonly request: RequestBytes
  readonly connections: number
  readonly durationMs: number
  /** The load continues after `durationMs` until this many requests were answered. Default 0. */
  readonly minRequests?: number
  /** Any other status is an error, and one error fails the measurement. */
  readonly expectedStatus: number
}

/** The measurements of one period of load. */
export interface LoadSlice {
  readonly latenciesMs: readonly number[]
  readonly seconds: number
  /** The time in which the load generator was busy. */
  readonly busySeconds: number
  readonly serverCpuMs: number
}

const READ_BUFFER_BYTES = 64 * 1024

/** Closed loop: every connection sends its next request when the answer to the last one is complete. */
export async function applyLoad(options: LoadOptions): Promise<LoadSlice> {
  const latenciesMs: number[] = []
  const cpuBeforeMs = await options.server.cpuMs()
  const before = performance.eventLoopUtilization()
  const startedAt = performance.now()
  const deadline = startedAt + options.durationMs
  await Promise.all(
    Array.from({ length: options.connections }, () => runConnection(options, deadline, latenciesMs)),
  )
  const seconds = (performance.now() - startedAt) / 1000
  const { utilization } = performance.eventLoopUtilization(before)
  const serverCpuMs = (await options.server.cpuMs()) - cpuBeforeMs
  return { latenciesMs, seconds, busySeconds: utilization * seconds, serverCpuMs }
}

async function runConnection(options: LoadOptions, deadline: number, latenciesMs: number[]): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const { minRequests = 0 } = options
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
    latenciesMs.push(now - sentAt)
    if (frame.status !== options.expectedStatus) {
      reject(new Error(`Expected status ${options.expectedStatus}, got ${frame.status}.`))
    } else if (now < deadline || latenciesMs.length < minRequests) send()
    else resolve()
    return true
  }
  const socket = openSocket(options.server.port, receive)
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
