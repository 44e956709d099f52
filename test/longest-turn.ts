/** Begins the message of an expectation about a measured time. */
export const MEASURED = 'measured in ms'

/** A machine can be slow for a moment, so a time is measured up to three times. Any other failure counts at once. */
export const RETRIES = { retry: { count: 2, condition: new RegExp(`^${MEASURED}: `) } }

/**
 * The longest the event loop of this thread was held during some work, in milliseconds of its processor time: other
 * programs on the machine do not count. What they do to its caches and its clock does, so the time is that of a machine on
 * which the same work always takes as long.
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
/** What reading and writing it takes where the bounds were set. */
const REFERENCE_MS = 15

/** How many times longer work takes just now; a machine that is faster changes no bound. */
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
