import { type FocusEvent, type KeyboardEvent, type ReactNode, useCallback, useRef, useState } from 'react'
import { useKey } from '../keyboard.ts'

/*
 * A table, and keyboard navigation in a list. Used by several pages. A list is one tab stop.
 */

/** A table with a caption and a head. Callers write the rows: `<tr>` with a `<th scope="row">` first. */
export function Table({ caption, columns, children, className, rowCount }: TableProps): ReactNode {
  return (
    <table className={className === undefined ? 'table' : `table ${className}`} aria-rowcount={rowCount}>
      <caption className="vh">{caption}</caption>
      <colgroup>
        {columns.map(({ title, className: width }) => (
          <col key={title} className={width} />
        ))}
      </colgroup>
      <thead>
        <tr>
          {columns.map(({ title, className: width, isEnd, isHidden }) => (
            <th
              key={title}
              scope="col"
              className={[width, isEnd && 'end'].filter(Boolean).join(' ') || undefined}
            >
              {isHidden ? <span className="vh">{title}</span> : title}
            </th>
          ))}
        </tr>
      </thead>
      {children}
    </table>
  )
}

interface TableProps {
  readonly caption: string
  readonly columns: readonly Column[]
  /** One or more `<tbody>`. */
  readonly children: ReactNode
  readonly className?: string
  /** The number of rows including the head, for tables that do not draw all rows. Drawn rows then have `aria-rowindex`. */
  readonly rowCount?: number
}

export interface Column {
  readonly title: string
  /** Class of the column and its head, which sets the width. */
  readonly className?: string
  /** Whether the column is right-aligned. */
  readonly isEnd?: boolean
  /** Whether the title is visually hidden, for a column of buttons. */
  readonly isHidden?: boolean
}

/**
 * Keyboard navigation in a list: arrows move inside it; `j` and `k` work from anywhere outside of fields. `reveal` scrolls to a row
 * that a virtual list has not drawn yet; the row then takes the focus. Only the tab index of a row's props changes, so that a list
 * that grows at the top does not redraw all rows.
 */
export function useListKeys({ length, keyOf = String, reveal }: ListKeysOptions): ListKeys {
  const [current, setCurrent] = useState(0)
  const rows = useRef(new Set<HTMLElement>())
  const rowToFocus = useRef<number | undefined>(undefined)
  const list = useRef({ length, keyOf })
  list.current = { length, keyOf }
  const stop = Math.min(current, Math.max(0, length - 1))

  const focusRow = (index: number): void => {
    const row = [...rows.current].find((drawn) => drawn.dataset.row === keyOf(index))
    if (row === undefined) rowToFocus.current = index
    else row.focus()
  }
  const go = (index: number): void => {
    const next = Math.max(0, Math.min(index, length - 1))
    setCurrent(next)
    reveal?.(next)
    focusRow(next)
  }
  const isInside = (): boolean => [...rows.current].some((row) => row === document.activeElement)
  useKey('j', () => go(isInside() ? stop + 1 : stop))
  useKey('k', () => go(isInside() ? stop - 1 : stop))

  const onFocus = useCallback(({ currentTarget: { dataset } }: FocusEvent<HTMLElement>) => {
    const { length, keyOf } = list.current
    for (let index = 0; index < length; index += 1) if (keyOf(index) === dataset.row) setCurrent(index)
  }, [])
  const ref = useCallback((row: HTMLElement | null) => {
    if (row === null) return undefined
    rows.current.add(row)
    if (rowToFocus.current !== undefined && list.current.keyOf(rowToFocus.current) === row.dataset.row) {
      rowToFocus.current = undefined
      row.focus()
    }
    return () => {
      rows.current.delete(row)
    }
  }, [])

  return {
    current: stop,
    go,
    enter(index) {
      setCurrent(index)
      focusRow(index)
    },
    onKeyDown(event) {
      const target = MOVES[event.key]?.(stop, length)
      if (target === undefined || length === 0) return
      event.preventDefault()
      go(target)
    },
    rowProps: (index) => ({ 'data-row': keyOf(index), tabIndex: index === stop ? 0 : -1, onFocus, ref }),
  }
}

const PAGE = 10
const MOVES: Readonly<Record<string, (at: number, length: number) => number>> = {
  ArrowDown: (at) => at + 1,
  ArrowUp: (at) => at - 1,
  PageDown: (at) => at + PAGE,
  PageUp: (at) => at - PAGE,
  Home: () => 0,
  End: (_, length) => length - 1,
}

interface ListKeysOptions {
  readonly length: number
  /** The key that identifies a row after it has moved. The default is its index. */
  readonly keyOf?: (index: number) => string
  readonly reveal?: (index: number) => void
}

interface ListKeys {
  /** The row that Tab reaches. */
  readonly current: number
  /** Focuses a row. */
  go(index: number): void
  /** Focuses a row that is in view, or is about to be drawn there. */
  enter(index: number): void
  /** For the element around the rows. */
  onKeyDown(event: KeyboardEvent): void
  /** For the link or button of the row. */
  rowProps(index: number): {
    readonly 'data-row': string
    readonly tabIndex: number
    readonly onFocus: (event: FocusEvent<HTMLElement>) => void
    readonly ref: (row: HTMLElement | null) => (() => void) | undefined
  }
}
