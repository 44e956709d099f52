import { useVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, useMemo, useRef } from 'react'

/*
 * Shows text of any size. Used by `code.tsx` and `places/approvals/arguments.tsx`. Only the rows in view are in the document.
 */

const ROW_PX = 20
const OVERSCAN = 10
/** A longer line continues on the next row, because browsers need seconds to lay out a row of a megabyte. */
export const MAX_ROW_CHARACTERS = 200

export function LongCode({ text, label, isJson }: LongCodeProps): ReactNode {
  const box = useRef<HTMLPreElement>(null)
  const starts = useMemo(() => rowStarts(text), [text])
  const rows = useVirtualizer({
    count: starts.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
  })
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable with the keyboard.
    <pre ref={box} className="long" tabIndex={0} role="region" aria-label={label}>
      <div className="rows" style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map(({ index, start }) => {
          const row = rowAt(text, starts, index)
          return (
            <div key={index} style={{ top: start }}>
              {isJson ? <Json text={row} /> : row}
            </div>
          )
        })}
      </div>
    </pre>
  )
}

interface LongCodeProps {
  readonly text: string
  readonly label: string
  readonly isJson: boolean
}

/** The start of each row: a row ends at a line break, or after `MAX_ROW_CHARACTERS`. */
export function rowStarts(text: string): readonly number[] {
  const starts: number[] = []
  for (let line = 0; line <= text.length; ) {
    const lineBreak = text.indexOf('\n', line)
    const end = lineBreak === -1 ? text.length : lineBreak
    let at = line
    for (; end - at > MAX_ROW_CHARACTERS; at = wholeCharacterEnd(text, at + MAX_ROW_CHARACTERS))
      starts.push(at)
    if (at < end || at === line) starts.push(at)
    line = end + 1
  }
  return starts
}

/** A row does not end inside a surrogate pair. */
function wholeCharacterEnd(text: string, end: number): number {
  const unit = text.charCodeAt(end)
  return unit >= 0xdc00 && unit <= 0xdfff ? end + 1 : end
}

export function rowAt(text: string, starts: readonly number[], index: number): string {
  const row = text.slice(starts[index], starts[index + 1])
  return row.endsWith('\n') ? row.slice(0, -1) : row
}

const TOKEN = /("(?:[^"\\]|\\.)*"?)(\s*:)?|[{}[\],:]/g

/** Hebrew, Arabic and the other scripts written from right to left. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u

/**
 * JSON in two shades of grey: names and punctuation are dimmer than values. A right-to-left string is isolated, so that a name
 * and its value cannot change places.
 */
export function Json({ text }: { readonly text: string }): ReactNode {
  const parts: ReactNode[] = []
  let from = 0
  for (const match of text.matchAll(TOKEN)) {
    const [whole, string, colon] = match
    const isRightToLeft = string !== undefined && RIGHT_TO_LEFT.test(string)
    if (string !== undefined && colon === undefined && !isRightToLeft) continue
    parts.push(text.slice(from, match.index))
    from = match.index + whole.length
    const shown = isRightToLeft ? [<bdi key="string">{string}</bdi>, colon] : whole
    parts.push(
      <span
        key={match.index}
        className={string === undefined ? 'j-p' : colon === undefined ? undefined : 'j-k'}
      >
        {shown}
      </span>,
    )
  }
  parts.push(text.slice(from))
  return parts
}
