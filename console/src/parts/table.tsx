import { type FocusEvent, type KeyboardEvent, type ReactNode, useCallback, useRef, useState } from 'react'
import { useKey } from '../keyboard.ts'

/** A table with a caption and heads. Rows are written by whoever uses it: `<tr>` with a `<th scope="row">` first. */
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
          {columns.map(({ title, isEnd, isHidden }) => (
            <th key={title} scope="col" className={isEnd ? 'end' : undefined}>
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
  /** One `<tbody>`, or several. */
  readonly children: ReactNode
  readonly className?: string
  /** With the head, where not every row is drawn; those that are say which they are with `aria-rowindex`. */
  readonly rowCount?: number
}

export interface Column {
  readonly title: string
  /** Gives the column its width. */
  readonly className?: string
  /** Numbers stand at the right. */
  readonly isEnd?: boolean
  /** Said, not shown: for a column of buttons. */
  readonly isHidden?: boolean
}

/**
 * A list is one tab stop with arrows inside; `j` and `k` move in it from anywhere outside of fields. `reveal` scrolls a row into
 * view that is not drawn yet: a virtual list draws it then, and it takes the focus as it comes. What a row is given is the same in
 * each drawing but for its tab index, wherever it has moved to: a list that grows at the top need not draw all rows again.
 */
export function useListKeys({ length, keyOf = String, reveal }: ListKeysOptions): ListKeys {
  const [current, setCurrent] = useState(0)
  const rows = useRef(new Set<HTMLElement>())
  const wanted = useRef<number | undefined>(undefined)
  const list = useRef({ length, keyOf })
  list.current = { length, keyOf }
  const stop = Math.min(current, Math.max(0, length - 1))

  const focusRow = (index: number): void => {
    const row = [...rows.current].find((drawn) => drawn.dataset.row === keyOf(index))
    if (row === undefined) wanted.current = index
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
    if (wanted.current !== undefined && list.current.keyOf(wanted.current) === row.dataset.row) {
      wanted.current = undefined
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
  /** Tells rows apart, also after they have moved; default by their place. */
  readonly keyOf?: (index: number) => string
  readonly reveal?: (index: number) => void
}

interface ListKeys {
  /** The row that Tab comes to. */
  readonly current: number
  /** Gives a row the focus. */
  go(index: number): void
  /** Gives the focus to a row that is in view, or about to be drawn there. */
  enter(index: number): void
  /** For the element around the rows. */
  onKeyDown(event: KeyboardEvent): void
  /** For the link or button that is the row. */
  rowProps(index: number): {
    readonly 'data-row': string
    readonly tabIndex: number
    readonly onFocus: (event: FocusEvent<HTMLElement>) => void
    readonly ref: (row: HTMLElement | null) => (() => void) | undefined
  }
}
