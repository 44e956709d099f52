/** Begins the message of an expectation about a measured time. */
export const MEASURED = 'measured in ms'

/** A machine can be slow for a moment, so a time is measured up to three times. Any other failure counts at once. */
export const RETRIES = { retry: { count: 2, condition: new RegExp(`^${MEASURED}: `) } }

/**
 * The longest turn of this thread's event loop during some work, in milliseconds of processor time, so that other programs do not
 * count. They still slow this thread down through caches and clock speed, so the result is divided by the current slowness of the
 * machine.
 */
export async function longestTurn(work: () => Promise<unknown>): Promise<number> {
  const slowBefore = slowness()
  let longest = 0
  let last = threadMs()
  let timer: NodeJS.Timeout | undefined
  const beat = (): void => {
    const now = threadMs()
    longest = Math.max(longest, now - last)
    last = now
    timer = setTimeout(beat, 1)
  }
  beat()
  try {
    await work()
    await new Promise((resolve) => setTimeout(resolve, 5))
  } finally {
    clearTimeout(timer)
  }
  return longest / ((slowBefore + slowness()) / 2)
}

const REFERENCE = JSON.stringify(
  Array.from({ length: 20_000 }, (_unused, at) => ({ at, name: `n${at}`, tags: ['a', 'b'] })),
)
/** Time to parse and write `REFERENCE` on the machine where the bounds were set. */
const REFERENCE_MS = 15

/** How many times longer work currently takes; at least 1, so that a faster machine does not tighten any bound. */
function slowness(): number {
  const times = Array.from({ length: 5 }, () => {
    const start = threadMs()
    JSON.stringify(JSON.parse(REFERENCE))
    return threadMs() - start
  })
  return Math.max(1, (times.toSorted((a, b) => a - b)[2] ?? 0) / REFERENCE_MS)
}

function threadMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}
