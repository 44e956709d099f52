import { type KeyboardEvent, type ReactNode, useRef, useState } from 'react'
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
 * view that is not drawn yet: a virtual list draws it then, and it takes the focus as it comes.
 */
export function useListKeys({ length, reveal }: ListKeysOptions): ListKeys {
  const [current, setCurrent] = useState(0)
  const rows = useRef(new Map<number, HTMLElement>())
  const wanted = useRef<number | undefined>(undefined)
  const stop = Math.min(current, Math.max(0, length - 1))

  const go = (index: number): void => {
    const next = Math.max(0, Math.min(index, length - 1))
    setCurrent(next)
    reveal?.(next)
    const row = rows.current.get(next)
    if (row === undefined) wanted.current = next
    else row.focus()
  }
  const isInside = (): boolean => [...rows.current.values()].some((row) => row === document.activeElement)
  useKey('j', () => go(isInside() ? stop + 1 : stop))
  useKey('k', () => go(isInside() ? stop - 1 : stop))

  return {
    current: stop,
    onKeyDown(event) {
      const target = MOVES[event.key]?.(stop, length)
      if (target === undefined || length === 0) return
      event.preventDefault()
      go(target)
    },
    rowProps: (index) => ({
      tabIndex: index === stop ? 0 : -1,
      onFocus: () => setCurrent(index),
      ref(row) {
        if (row === null) return
        rows.current.set(index, row)
        if (wanted.current === index) {
          wanted.current = undefined
          row.focus()
        }
        return () => {
          rows.current.delete(index)
        }
      },
    }),
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
  readonly reveal?: (index: number) => void
}

interface ListKeys {
  /** The row that Tab comes to. */
  readonly current: number
  /** For the element around the rows. */
  onKeyDown(event: KeyboardEvent): void
  /** For the link or button that is the row. */
  rowProps(index: number): {
    readonly tabIndex: number
    readonly onFocus: () => void
    readonly ref: (row: HTMLElement | null) => (() => void) | undefined
  }
}
