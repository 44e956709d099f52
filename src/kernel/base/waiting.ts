import { fault } from './errors.ts'

/**
 * Waiting for code outside this package: tools, hooks, sources. Every such wait ends, by a signal or by a deadline, even if
 * that code ignores both. `MaybePromise` avoids waits that are not needed, which would cost a turn of the event loop.
 */

/** For example, a local store returns a value and a remote store returns a promise. */
export type MaybePromise<T> = T | Promise<T>

/** Resolves with the answer, or rejects with the signal's reason as soon as it aborts. */
export function untilAborted<Value>(answer: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(signal.reason)
    if (signal.aborted) giveUp()
    signal.addEventListener('abort', giveUp, { once: true })
    answer.then(resolve, reject).finally(() => signal.removeEventListener('abort', giveUp))
  })
}

/** Rejects with `tool_timeout` if `act` takes longer than `maxMs`. */
export async function withDeadline<T>(maxMs: number, act: () => T | Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(fault('tool_timeout', `It took longer than ${maxMs} ms.`)), maxMs)
  try {
    return await Promise.race([Promise.resolve(act()), promise])
  } finally {
    clearTimeout(timer)
  }
}
