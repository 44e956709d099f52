import { useRouterState } from '@tanstack/react-router'
import type { Virtualizer } from '@tanstack/react-virtual'
import { useCallback, useEffect, useRef } from 'react'

/** The position in a long list at which a person followed a link. */
interface LeftPlace {
  /** The row at the top of the window, and how far it was scrolled past. */
  readonly top: string
  readonly pastPx: number
  /** The row that last had the focus. */
  readonly focused: string | undefined
  /** The number of rows. */
  readonly length: number
}

/** By history entry: Back and Forward return to a position, a link starts at the top. */
const places = new Map<string, LeftPlace>()
const MAX_PLACES = 100

function entryKey(): string {
  const state: unknown = history.state
  const key = typeof state === 'object' && state !== null && '__TSR_key' in state ? state.__TSR_key : ''
  return `${location.pathname} ${String(key)}`
}

/** The number of rows when this history entry was left; 0 for a new one. */
export function leftLength(): number {
  return places.get(entryKey())?.length ?? 0
}

interface LeftPlaceOptions {
  readonly list: Virtualizer<HTMLElement, Element>
  readonly length: number
  readonly keyOf: (index: number) => string
  /** Focuses a row that is in view. */
  readonly focus: (index: number) => void
}

/** Keeps the position in a virtual list for Back and Forward, and returns to it once the rows are loaded. */
export function useLeftPlace({ list, length, keyOf, focus }: LeftPlaceOptions): void {
  const entry = useRouterState({ select: ({ location: { state } }) => state.__TSR_key })
  const left = useRef(places.get(entryKey()))
  // Before the first rows are drawn there is nothing to scroll.
  const isDrawn = list.getVirtualItems().length > 0
  const now = useRef({ list, length, keyOf })
  now.current = { list, length, keyOf }

  // The focus stays if a row has opened a part of the page that takes it.
  const focused = useRef<string | undefined>(undefined)

  const keep = useCallback((): void => {
    const { list: rows, length: count, keyOf: nameOf } = now.current
    const scroller = rows.options.getScrollElement()
    const top = scroller === null ? undefined : rows.getVirtualItemForOffset(scroller.scrollTop)
    if (scroller === null || top === undefined || left.current !== undefined) return
    const key = entryKey()
    places.delete(key)
    places.set(key, {
      top: nameOf(top.index),
      pastPx: scroller.scrollTop - top.start,
      focused: focused.current,
      length: count,
    })
    const [oldest] = places.keys()
    if (places.size > MAX_PLACES && oldest !== undefined) places.delete(oldest)
  }, [])

  useEffect(() => {
    const place = left.current
    const { list: rows } = now.current
    const scroller = rows.options.getScrollElement()
    if (place === undefined || scroller === null || !isDrawn) return
    const indexOf = (key: string | undefined): number => {
      for (let index = 0; index < length; index += 1) if (keyOf(index) === key) return index
      return -1
    }
    left.current = undefined
    focused.current = place.focused
    const start = rows.measurementsCache[indexOf(place.top)]?.start
    if (start !== undefined) scroller.scrollTop = start + place.pastPx
    const row = indexOf(place.focused)
    if (row !== -1) focus(row)
  })

  // biome-ignore lint/correctness/useExhaustiveDependencies: each history entry has its own position.
  useEffect(keep, [entry, keep])
  useEffect(() => {
    const scroller = now.current.list.options.getScrollElement()
    const onFocus = ({ target }: FocusEvent): void => {
      if (target instanceof HTMLElement) focused.current = target.dataset.row ?? focused.current
      keep()
    }
    scroller?.addEventListener('scroll', keep, { passive: true })
    scroller?.addEventListener('focusin', onFocus)
    return () => {
      scroller?.removeEventListener('scroll', keep)
      scroller?.removeEventListener('focusin', onFocus)
    }
  }, [keep])
}
