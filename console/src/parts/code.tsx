import { type ReactNode, useState } from 'react'
import { CopyButton } from './button.tsx'
import { formatBytes } from './format.ts'

const MOST_CHARACTERS = 20_000

/** Text of a machine: a schema, an answer, a command. Long ones are cut, with a way to see them whole. */
export function Code({ text, label, head, isJson = false, className }: CodeProps): ReactNode {
  const [isWhole, setWhole] = useState(false)
  const isCut = !isWhole && text.length > MOST_CHARACTERS
  const shown = isCut ? text.slice(0, MOST_CHARACTERS) : text
  return (
    <div className={className === undefined ? 'code' : `code ${className}`}>
      <div className="code-head">
        <span className="grow clip">{head ?? label}</span>
        <CopyButton text={text} label={`Copy ${label}`} />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard. */}
      <pre tabIndex={0} role="region" aria-label={label}>
        {isJson ? <Json text={shown} /> : shown}
      </pre>
      {isCut && (
        <p className="code-cut meta">
          The first {formatBytes(MOST_CHARACTERS)} of {formatBytes(text.length)}.{' '}
          <button type="button" className="plain link" onClick={() => setWhole(true)}>
            Show all
          </button>
        </p>
      )}
    </div>
  )
}

interface CodeProps {
  readonly text: string
  /** What it is, in words: "Input schema". */
  readonly label: string
  /** Instead of the label, over the code. */
  readonly head?: ReactNode
  readonly isJson?: boolean
  readonly className?: string
}

/** A value as JSON, indented. What has no JSON is shown as a string of it. */
export function toJson(value: unknown): string {
  return JSON.stringify(value, undefined, 2) ?? String(value)
}

/** One line with a button to copy it: a command, an address, an id. */
export function CodeLine({ text, label }: { readonly text: string; readonly label: string }): ReactNode {
  return (
    <div className="code one">
      <pre>{text}</pre>
      <CopyButton text={text} label={`Copy ${label}`} />
    </div>
  )
}

const TOKEN = /("(?:[^"\\]|\\.)*"?)(\s*:)?|[{}[\],:]/g

/** JSON in two greys: names and signs step back, values are ink. No syntax colours. */
function Json({ text }: { readonly text: string }): ReactNode {
  const parts: ReactNode[] = []
  let from = 0
  for (const match of text.matchAll(TOKEN)) {
    const [whole, string, colon] = match
    if (string !== undefined && colon === undefined) continue
    parts.push(text.slice(from, match.index))
    from = match.index + whole.length
    parts.push(
      <span key={match.index} className={string === undefined ? 'j-p' : 'j-k'}>
        {whole}
      </span>,
    )
  }
  parts.push(text.slice(from))
  return parts
}

/** Lines that went and lines that came. The sign at the edge says which, the ground only underlines it. */
export function Diff({ lines, label }: DiffProps): ReactNode {
  return (
    <div className="diff" role="group" aria-label={label}>
      {lines.map(({ kind, text }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no names and keep their order.
        <div key={index} className={kind === 'same' ? undefined : kind}>
          <span>
            {kind !== 'same' && <span className="vh">{kind === 'add' ? 'Added: ' : 'Removed: '}</span>}
            {text}
          </span>
        </div>
      ))}
    </div>
  )
}

interface DiffProps {
  readonly label: string
  readonly lines: readonly { readonly kind: 'add' | 'del' | 'same'; readonly text: ReactNode }[]
}
