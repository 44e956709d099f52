/** The same promise, given up when the signal says so. */
export async function raced<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  promise.catch(() => undefined)
  signal.throwIfAborted()
  let stop: () => void = () => undefined
  const stopped = new Promise<never>((_resolve, reject) => {
    stop = () => reject(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
  })
  try {
    return await Promise.race([promise, stopped])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
