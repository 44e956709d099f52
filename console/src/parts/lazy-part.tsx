import { type ComponentType, type ReactNode, use } from 'react'

/** A part of the console that did not come: the server was away, or is of another version than the page by now. */
export class PartNotLoaded extends Error {
  override readonly name = 'PartNotLoaded'
  /** The next time it is shown, it is asked for once more. */
  readonly forget: () => void

  constructor(cause: unknown, forget: () => void) {
    super('This part of the console did not load.', { cause })
    this.forget = forget
  }
}

/**
 * A component in a file of its own, loaded when it is first shown, or a little earlier by `preload`. One that does not come is an
 * error of whoever shows it. What the router has for this loads the page anew even while the server is away, and then there is none.
 */
export function lazyPart<Props extends object>(load: () => Promise<ComponentType<Props>>): LazyPart<Props> {
  let asked: Promise<ComponentType<Props>> | undefined
  // One that is there is shown at once: to wait for a promise, even a kept one, leaves the page empty for a moment.
  let there: ComponentType<Props> | undefined
  const forget = (): void => {
    asked = undefined
  }
  const ask = (): Promise<ComponentType<Props>> => {
    asked ??= load().then(
      (loaded) => {
        there = loaded
        return loaded
      },
      (cause: unknown) => {
        throw new PartNotLoaded(cause, forget)
      },
    )
    return asked
  }
  const Part = (props: Props): ReactNode => {
    const Loaded = there ?? use(ask())
    return <Loaded {...props} />
  }
  return Object.assign(Part, {
    // Nobody waits for it yet, so that nobody has to hear that it failed.
    preload: () => ask().then(() => undefined, forget),
  })
}

type LazyPart<Props> = ((props: Props) => ReactNode) & { preload(): Promise<void> }

const RELOADED = 'collet-reloaded'
const MIN_BETWEEN_MS = 30_000

/**
 * After an upgrade the server no longer has the files of the page that is open, and has the whole of a newer one. False where that
 * was just done: it did not help then.
 */
export function reloadOnce(nowMs = Date.now()): boolean {
  try {
    const last = Number(sessionStorage.getItem(RELOADED) ?? 0)
    if (nowMs - last < MIN_BETWEEN_MS) return false
    sessionStorage.setItem(RELOADED, String(nowMs))
  } catch {
    // Without a place to note it, it might be done for ever.
    return false
  }
  location.reload()
  return true
}
