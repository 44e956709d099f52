import { isMainThread } from 'node:worker_threads'

/**
 * Loaded before the server: sets its clock wrong by `FAULT_CLOCK_MS`, which is what a machine whose clock is wrong looks like
 * to the program, ends it with the driver, however that ends, and says when the machine let it stand still.
 */
const offsetMs = Number(process.env.FAULT_CLOCK_MS ?? 0)
if (offsetMs !== 0) {
  const rightMs = Date.now
  Date.now = () => rightMs() + offsetMs
}
// Threads have a standard input of their own, which has ended.
if (isMainThread) {
  process.stdin.resume().once('end', () => process.exit(1))
  // From the first look on: until then the server was loaded, and held nothing.
  let lookedAtMs = Number.POSITIVE_INFINITY
  setInterval(() => {
    const nowMs = performance.now()
    if (nowMs - lookedAtMs > 2_000)
      process.stderr.write(
        `stood still ${performance.timeOrigin + lookedAtMs} ${performance.timeOrigin + nowMs}\n`,
      )
    lookedAtMs = nowMs
  }, 250).unref()
}
