import { isMainThread } from 'node:worker_threads'

/**
 * Loaded before the server: sets its clock wrong by `FAULT_CLOCK_MS`, which is what a machine whose clock is wrong looks like
 * to the program, and ends it with the driver, however that ends.
 */
const offsetMs = Number(process.env.FAULT_CLOCK_MS ?? 0)
if (offsetMs !== 0) {
  const rightMs = Date.now
  Date.now = () => rightMs() + offsetMs
}
// Threads have a standard input of their own, which has ended.
if (isMainThread) process.stdin.resume().once('end', () => process.exit(1))
