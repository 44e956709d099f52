import { useRouterState } from '@tanstack/react-router'
import type { Virtualizer } from '@tanstack/react-virtual'
import { useCallback, useEffect, useRef } from 'react'

/*
 * Saves the position in a long list, and returns to it after Back and Forward. Used by several pages. A link starts at the top.
 */

/** The position in a long list at which a person followed a link. */
interface ListPosition {
  /** The row at the top of the list, and how many of its pixels were scrolled out of view. */
  readonly top: string
  readonly pastPx: number
  /** The row that last had the focus. */
  readonly focused: string | undefined
  /** The number of rows. */
  readonly length: number
}

/** Positions by history entry. */
const positions = new Map<string, ListPosition>()
const MAX_POSITIONS = 100

function entryKey(): string {
  const state: unknown = history.state
  const key = typeof state === 'object' && state !== null && '__TSR_key' in state ? state.__TSR_key : ''
  return `${location.pathname} ${String(key)}`
}

/** The number of rows when this history entry was left; 0 for a new entry. */
export function savedLength(): number {
  return positions.get(entryKey())?.length ?? 0
}

interface ListPositionOptions {
  readonly list: Virtualizer<HTMLElement, Element>
  readonly length: number
  readonly keyOf: (index: number) => string
  /** Focuses a row that is in view. */
  readonly focus: (index: number) => void
}

/** Saves the position in a virtual list for Back and Forward, and returns to it once the rows are loaded. */
export function useListPosition({ list, length, keyOf, focus }: ListPositionOptions): void {
  const entry = useRouterState({ select: ({ location: { state } }) => state.__TSR_key })
  const saved = useRef(positions.get(entryKey()))
  // The list can be scrolled only after its first rows are drawn.
  const isDrawn = list.getVirtualItems().length > 0
  const now = useRef({ list, length, keyOf })
  now.current = { list, length, keyOf }

  // The last focused row is remembered even if it has opened a part of the page that takes the focus.
  const focused = useRef<string | undefined>(undefined)

  const save = useCallback((): void => {
    const { list: rows, length: count, keyOf: nameOf } = now.current
    const scroller = rows.options.getScrollElement()
    const top = scroller === null ? undefined : rows.getVirtualItemForOffset(scroller.scrollTop)
    if (scroller === null || top === undefined || saved.current !== undefined) return
    const key = entryKey()
    positions.delete(key)
    positions.set(key, {
      top: nameOf(top.index),
      pastPx: scroller.scrollTop - top.start,
      focused: focused.current,
      length: count,
    })
    const [oldest] = positions.keys()
    if (positions.size > MAX_POSITIONS && oldest !== undefined) positions.delete(oldest)
  }, [])

  useEffect(() => {
    const position = saved.current
    const { list: rows } = now.current
    const scroller = rows.options.getScrollElement()
    if (position === undefined || scroller === null || !isDrawn) return
    const indexOf = (key: string | undefined): number => {
      for (let index = 0; index < length; index += 1) if (keyOf(index) === key) return index
      return -1
    }
    saved.current = undefined
    focused.current = position.focused
    const start = rows.measurementsCache[indexOf(position.top)]?.start
    if (start !== undefined) scroller.scrollTop = start + position.pastPx
    const row = indexOf(position.focused)
    if (row !== -1) focus(row)
  })

  // biome-ignore lint/correctness/useExhaustiveDependencies: each history entry has its own position.
  useEffect(save, [entry, save])
  useEffect(() => {
    const scroller = now.current.list.options.getScrollElement()
    const onFocus = ({ target }: FocusEvent): void => {
      if (target instanceof HTMLElement) focused.current = target.dataset.row ?? focused.current
      save()
    }
    scroller?.addEventListener('scroll', save, { passive: true })
    scroller?.addEventListener('focusin', onFocus)
    return () => {
      scroller?.removeEventListener('scroll', save)
      scroller?.removeEventListener('focusin', onFocus)
    }
  }, [save])
}
