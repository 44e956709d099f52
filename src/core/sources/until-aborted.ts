/** The answer, or the signal's reason: code of others that ignores its signal holds nobody up. */
export function untilAborted<Value>(answer: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(signal.reason)
    if (signal.aborted) giveUp()
    signal.addEventListener('abort', giveUp, { once: true })
    answer.then(resolve, reject).finally(() => signal.removeEventListener('abort', giveUp))
  })
}
