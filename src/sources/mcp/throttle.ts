export interface Throttled {
  (): void
  stop(): void
}

/** The same function, at most once per gap: at once, and once more at its end if it was asked for in between. */
export function throttle(run: () => void, gapMs: number): Throttled {
  let pausing: NodeJS.Timeout | undefined
  let isWanted = false
  const go = (): void => {
    if (pausing !== undefined) {
      isWanted = true
      return
    }
    isWanted = false
    pausing = setTimeout(() => {
      pausing = undefined
      if (isWanted) go()
    }, gapMs)
    pausing.unref()
    run()
  }
  const stop = (): void => clearTimeout(pausing)
  return Object.assign(go, { stop })
}
