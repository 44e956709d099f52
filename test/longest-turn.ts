/**
 * The longest the event loop of this thread was held during some work, in milliseconds of its processor time: other
 * programs on the machine do not count.
 */
export async function longestTurn(work: () => Promise<unknown>): Promise<number> {
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
  return longest
}

function threadMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}
