import { type ComponentType, type ReactNode, use } from 'react'

/** A part of the console that could not be loaded: the server was away, or was upgraded since the page was loaded. */
export class PartNotLoaded extends Error {
  override readonly name = 'PartNotLoaded'
  /** Loads the part again the next time it is shown. */
  readonly forget: () => void

  constructor(cause: unknown, forget: () => void) {
    super('This part of the console could not be loaded.', { cause })
    this.forget = forget
  }
}

/**
 * A component in a separate file, loaded when it is first shown or earlier by `preload`. A failure throws in the component that
 * shows it. The router's own lazy loading would reload the page even while the server is away.
 */
export function lazyPart<Props extends object>(load: () => Promise<ComponentType<Props>>): LazyPart<Props> {
  let asked: Promise<ComponentType<Props>> | undefined
  // A loaded component is shown at once: waiting for a resolved promise would leave the page empty for a moment.
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
    // Prefetch: errors are ignored here; the real load reports them.
    preload: () => ask().then(() => undefined, forget),
  })
}

type LazyPart<Props> = ((props: Props) => ReactNode) & { preload(): Promise<void> }

const RELOADED = 'collet-reloaded'
const MIN_BETWEEN_MS = 30_000

/**
 * After an upgrade the server no longer has the files of the open page, so the page is reloaded. Returns false if that was done
 * just before and did not help.
 */
export function reloadOnce(nowMs = Date.now()): boolean {
  try {
    const last = Number(sessionStorage.getItem(RELOADED) ?? 0)
    if (nowMs - last < MIN_BETWEEN_MS) return false
    sessionStorage.setItem(RELOADED, String(nowMs))
  } catch {
    // Without storage it could reload forever.
    return false
  }
  location.reload()
  return true
}
