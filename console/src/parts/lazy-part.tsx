import { type ComponentType, type ReactNode, use } from 'react'
import { WORDS } from './words.tsx'

/*
 * Loads a component from a separate file when it is first shown. Used by several modules. A failed load can be repeated.
 */

/** A part of the console could not be loaded: the server is unreachable, or was upgraded after the page was loaded. */
export class PartNotLoaded extends Error {
  override readonly name = WORDS.partnotloaded
  /** Makes the next attempt to show the part load it again. */
  readonly forget: () => void

  constructor(cause: unknown, forget: () => void) {
    super(WORDS.thisPartConsoleCouldNot, { cause })
    this.forget = forget
  }
}

/**
 * A component in a separate file, loaded when it is first shown or earlier by `preload`. A failure is thrown by the component
 * that shows it. The router's own lazy loading would reload the page even while the server is unreachable.
 */
export function lazyPart<Props extends object>(load: () => Promise<ComponentType<Props>>): LazyPart<Props> {
  let loading: Promise<ComponentType<Props>> | undefined
  // A loaded component is shown at once: waiting for a resolved promise would leave the page empty for a moment.
  let component: ComponentType<Props> | undefined
  const forget = (): void => {
    loading = undefined
  }
  const loadOnce = (): Promise<ComponentType<Props>> => {
    loading ??= load().then(
      (loaded) => {
        component = loaded
        return loaded
      },
      (cause: unknown) => {
        throw new PartNotLoaded(cause, forget)
      },
    )
    return loading
  }
  const Part = (props: Props): ReactNode => {
    const Loaded = component ?? use(loadOnce())
    return <Loaded {...props} />
  }
  return Object.assign(Part, {
    // Errors of a prefetch are ignored, because showing the part reports them.
    preload: () => loadOnce().then(() => undefined, forget),
  })
}

type LazyPart<Props> = ((props: Props) => ReactNode) & { preload(): Promise<void> }

const RELOADED = 'collet-reloaded'
const MIN_INTERVAL_MS = 30_000

/**
 * Reloads the page, because an upgraded server no longer has the files of the open page. Returns false if the page was reloaded
 * less than 30 seconds ago, which did not help.
 */
export function reloadOnce(nowMs = Date.now()): boolean {
  try {
    const last = Number(sessionStorage.getItem(RELOADED) ?? 0)
    if (nowMs - last < MIN_INTERVAL_MS) return false
    sessionStorage.setItem(RELOADED, String(nowMs))
  } catch {
    // Without storage, the page could reload forever.
    return false
  }
  location.reload()
  return true
}
