import { isMainThread } from 'node:worker_threads'

/**
 * Loaded before the server: shifts its clock by `FAULT_CLOCK_MS`, as on a machine whose clock is wrong; ends it with the
 * driver, however the driver ends; and reports when the process stalled.
 */
const offsetMs = Number(process.env.FAULT_CLOCK_MS ?? 0)
if (offsetMs !== 0) {
  const rightMs = Date.now
  Date.now = () => rightMs() + offsetMs
}
// Threads have their own standard input, which has ended.
if (isMainThread) {
  process.stdin.resume().once('end', () => process.exit(1))
  // Starts with the first check: until then the server was loading, and held nothing.
  let lookedAtMs = Number.POSITIVE_INFINITY
  setInterval(() => {
    const nowMs = performance.now()
    if (nowMs - lookedAtMs > 2_000)
      process.stderr.write(
        `stalled ${performance.timeOrigin + lookedAtMs} ${performance.timeOrigin + nowMs}\n`,
      )
    lookedAtMs = nowMs
  }, 250).unref()
}
