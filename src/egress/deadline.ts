/** One end for everything that belongs to a request: the caller's abort, or the time limit. */
export interface Deadline {
  readonly signal: AbortSignal
  readonly hasPassed: boolean
  /** Gives the value, or rejects as soon as the signal does; late values are handed to `discard`. */
  race<Value>(work: Promise<Value>, discard?: (late: Value) => void): Promise<Value>
  clear(): void
}

export function startDeadline(timeoutMs: number, caller: AbortSignal): Deadline {
  const passed = new AbortController()
  const timer = setTimeout(() => passed.abort(new Error('the time is over')), timeoutMs)
  timer.unref()
  const signal = AbortSignal.any([caller, passed.signal])
  return {
    signal,
    get hasPassed() {
      return passed.signal.aborted && !caller.aborted
    },
    async race(work, discard) {
      const aborted = Promise.withResolvers<never>()
      const abort = (): void => {
        work.then(discard, () => undefined)
        aborted.reject(signal.reason)
      }
      if (signal.aborted) abort()
      else signal.addEventListener('abort', abort, { once: true })
      try {
        return await Promise.race([work, aborted.promise])
      } finally {
        signal.removeEventListener('abort', abort)
        aborted.promise.catch(() => undefined)
      }
    },
    clear: () => clearTimeout(timer),
  }
}
