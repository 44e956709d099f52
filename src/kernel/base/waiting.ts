import { fault } from './errors.ts'

/**
 * Waiting for code that this package did not write: tools, hooks, sources. Every such wait ends, by a signal or by a
 * deadline, even if that code ignores both. `MaybePromise` is here because a wait that is not needed costs a turn.
 */

/** A local store answers synchronously, a remote one with a promise. */
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

/** Fails with `tool_timeout` when `act` takes longer than `maxMs`. */
export async function withDeadline<T>(maxMs: number, act: () => T | Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(fault('tool_timeout', `It took longer than ${maxMs} ms.`)), maxMs)
  try {
    return await Promise.race([Promise.resolve(act()), promise])
  } finally {
    clearTimeout(timer)
  }
}
