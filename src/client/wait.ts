/** Waits `ms`, or rejects with the signal's reason as soon as it is aborted. */
export type Sleep = (ms: number, signal?: AbortSignal) => Promise<void>

export const sleep: Sleep = (ms, signal) =>
  untilAborted(
    signal,
    (ended) =>
      new Promise((resolve) => {
        const timer = setTimeout(resolve, ms)
        ended.addEventListener('abort', () => clearTimeout(timer), { once: true })
      }),
  )

/**
 * Runs `work` and leaves it behind when the signal is aborted, so that a caller never waits for something that
 * does not listen. `work` gets a signal that is aborted in every case once nobody waits any more.
 */
export async function untilAborted<T>(
  signal: AbortSignal | undefined,
  work: (ended: AbortSignal) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted()
  const ending = new AbortController()
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const leave = () => reject(signal?.reason)
  signal?.addEventListener('abort', leave, { once: true })
  try {
    return await Promise.race([work(ending.signal), aborted])
  } finally {
    signal?.removeEventListener('abort', leave)
    ending.abort(signal?.reason)
  }
}

/** A signal that is aborted with the first of these; `undefined` when there is none. */
export function joinSignals(...signals: readonly (AbortSignal | undefined)[]): AbortSignal | undefined {
  const present = signals.filter((signal) => signal !== undefined)
  return present.length < 2 ? present[0] : AbortSignal.any(present)
}
