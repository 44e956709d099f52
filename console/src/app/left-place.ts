import { useRouterState } from '@tanstack/react-router'
import type { Virtualizer } from '@tanstack/react-virtual'
import { useCallback, useEffect, useRef } from 'react'

/** Where a person was in a long list when they followed a link out of it. */
interface LeftPlace {
  /** The row at the top of the window, and how far it was scrolled past. */
  readonly top: string
  readonly pastPx: number
  /** The row that last had the focus. */
  readonly focused: string | undefined
  /** How many rows the list had. */
  readonly length: number
}

/** By entry of the browser's history: Back and Forward return to a place, a link begins at the top. */
const places = new Map<string, LeftPlace>()
const MAX_PLACES = 100

function entryKey(): string {
  const state: unknown = history.state
  const key = typeof state === 'object' && state !== null && '__TSR_key' in state ? state.__TSR_key : ''
  return `${location.pathname} ${String(key)}`
}

/** How long the list was when this entry of the history was left; 0 for a new one. */
export function leftLength(): number {
  return places.get(entryKey())?.length ?? 0
}

interface LeftPlaceOptions {
  readonly list: Virtualizer<HTMLElement, Element>
  readonly length: number
  readonly keyOf: (index: number) => string
  /** Gives the focus to a row that is in view. */
  readonly focus: (index: number) => void
}

/** Keeps the place in a virtual list for Back and Forward, and returns to it once the rows are there. */
export function useLeftPlace({ list, length, keyOf, focus }: LeftPlaceOptions): void {
  const entry = useRouterState({ select: ({ location: { state } }) => state.__TSR_key })
  const left = useRef(places.get(entryKey()))
  // Before the first rows are drawn there is nothing to scroll.
  const isDrawn = list.getVirtualItems().length > 0
  const now = useRef({ list, length, keyOf })
  now.current = { list, length, keyOf }

  // Stays when a row has opened a part of the page that takes the focus.
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

  // biome-ignore lint/correctness/useExhaustiveDependencies: each entry of the history has a place of its own.
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
