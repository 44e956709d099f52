import { fault } from '#core/errors'

/** Waits for foreign code, but not for ever. */
export async function within<T>(mostMs: number, act: () => T | Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(fault('tool_timeout', `It took longer than ${mostMs} ms.`)), mostMs)
  try {
    return await Promise.race([Promise.resolve(act()), promise])
  } finally {
    clearTimeout(timer)
  }
}
