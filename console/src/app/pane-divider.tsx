import {
  type KeyboardEvent,
  type PointerEvent,
  type ReactNode,
  useLayoutEffect,
  useRef,
  useState,
} from 'react'
import { WORDS } from './words.tsx'

/**
 * The line between two panes, which people drag or move with arrow keys to resize them. Pages with two panes put it last into their
 * `.split` element, whose style sheet reads `--pane`. Invariant: the browser remembers the width for each page; nothing is sent.
 */

/** Narrower panes cannot be read. */
const MIN_PX = 256
const OTHER_MIN_PX = 320
const STEP_PX = 24
const STORAGE_PREFIX = 'collet-pane '

export function PaneDivider({ name, label, resizes = 'first' }: DividerProps): ReactNode {
  const divider = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState<number | undefined>(() => readWidth(name))
  const [room, setRoom] = useState({ now: MIN_PX, max: MIN_PX })
  useLayoutEffect(() => {
    const split = divider.current?.parentElement
    if (split == null) return undefined
    // The share is a limit for windows that are narrower than the one in which the width was chosen.
    if (width === undefined) split.style.removeProperty('--pane')
    else split.style.setProperty('--pane', WORDS.minPx70(width))
    const measure = (): void => {
      const pane = split.children[resizes === 'first' ? 0 : 1]
      const max = Math.max(MIN_PX, split.clientWidth - OTHER_MIN_PX)
      setRoom({ now: Math.round(pane?.getBoundingClientRect().width ?? MIN_PX), max })
    }
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(split)
    return () => observer.disconnect()
  }, [width, resizes])
  const resize = (next: number | undefined): void => {
    const kept = next === undefined ? undefined : Math.round(Math.min(room.max, Math.max(MIN_PX, next)))
    setWidth(kept)
    writeWidth(name, kept)
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    const towards = resizes === 'first' ? 1 : -1
    const next = {
      ArrowLeft: room.now - STEP_PX * towards,
      ArrowRight: room.now + STEP_PX * towards,
      Home: MIN_PX,
      End: room.max,
    }[event.key]
    if (next === undefined) return
    event.preventDefault()
    resize(next)
  }
  const onPointerMove = ({ currentTarget, pointerId, clientX }: PointerEvent<HTMLElement>): void => {
    if (!currentTarget.hasPointerCapture(pointerId)) return
    const box = currentTarget.parentElement?.getBoundingClientRect()
    if (box !== undefined) resize(resizes === 'first' ? clientX - box.left : box.right - clientX)
  }
  return (
    <div
      ref={divider}
      className="pane-divider"
      role="separator"
      tabIndex={0}
      aria-orientation="vertical"
      aria-label={label}
      aria-valuenow={room.now}
      aria-valuemin={MIN_PX}
      aria-valuemax={room.max}
      onKeyDown={onKeyDown}
      onPointerDown={({ currentTarget, pointerId }) => currentTarget.setPointerCapture(pointerId)}
      onPointerMove={onPointerMove}
      onDoubleClick={() => resize(undefined)}
    />
  )
}

interface DividerProps {
  /** The page, for which the width is remembered. */
  readonly name: string
  readonly label: string
  /** The pane whose width is set. */
  readonly resizes?: 'first' | 'second'
}

function readWidth(name: string): number | undefined {
  try {
    const width = Number(localStorage.getItem(STORAGE_PREFIX + name))
    return width >= MIN_PX ? width : undefined
  } catch {
    return undefined
  }
}

function writeWidth(name: string, width: number | undefined): void {
  try {
    if (width === undefined) localStorage.removeItem(STORAGE_PREFIX + name)
    else localStorage.setItem(STORAGE_PREFIX + name, String(width))
  } catch {
    // Without storage, the width lasts until the page is left.
  }
}
