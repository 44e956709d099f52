import { type ReactNode, useState } from 'react'
import { Button, CopyButton } from './button.tsx'
import { formatCount } from './format.ts'
import { Json, LongCode } from './long-code.tsx'
import { visibleText } from './visible-text.ts'
import { WORDS } from './words.tsx'

/*
 * Shows code, data and differences between lines. Used by several pages. Only the beginning of a long text is shown at first.
 */

const MAX_CHARACTERS = 20_000

/** Code or data: a schema, an answer, a command. Only the beginning of a long text is shown, with buttons to show or save all. */
export function Code({ text, label, head, isJson = false, className }: CodeProps): ReactNode {
  const [isWhole, setWhole] = useState(false)
  const isLong = text.length > MAX_CHARACTERS
  const shown = visibleText(isLong ? text.slice(0, MAX_CHARACTERS) : text)
  return (
    <div className={className === undefined ? 'code' : `code ${className}`}>
      <div className="code-head">
        <span className="grow clip">{head ?? label}</span>
        {isLong && <DownloadButton text={text} label={label} isJson={isJson} />}
        <CopyButton text={text} label={WORDS.copy(label)} />
      </div>
      {isLong && isWhole ? (
        <LongCode text={visibleText(text)} label={label} isJson={isJson} />
      ) : (
        <>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable with the keyboard. */}
          <pre tabIndex={0} role="region" aria-label={label}>
            {isJson ? <Json text={shown} /> : shown}
          </pre>
        </>
      )}
      {isLong && !isWhole && (
        <p className="code-cut meta">
          {WORDS.firstCharacters(formatCount(MAX_CHARACTERS), formatCount(text.length))}
          <button type="button" className="plain link" onClick={() => setWhole(true)}>
            {WORDS.showAll}
          </button>
        </p>
      )}
    </div>
  )
}

/** Saves the text as a file. */
function DownloadButton({ text, label, isJson }: Pick<CodeProps, 'text' | 'label' | 'isJson'>): ReactNode {
  const download = (): void => {
    const link = document.createElement('a')
    link.href = URL.createObjectURL(
      new Blob([text], { type: isJson === true ? 'application/json' : 'text/plain' }),
    )
    link.download = `${label.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}.${isJson === true ? 'json' : 'txt'}`
    link.click()
    URL.revokeObjectURL(link.href)
  }
  return (
    <Button isSmall kind="quiet" onClick={download}>
      {WORDS.download}
    </Button>
  )
}

interface CodeProps {
  readonly text: string
  /** The accessible name: "Input schema". */
  readonly label: string
  /** Replaces the label above the code. */
  readonly head?: ReactNode
  readonly isJson?: boolean
  readonly className?: string
}

/** A value as indented JSON; a value that JSON cannot express is shown as a string. */
export function toJson(value: unknown): string {
  return JSON.stringify(value, undefined, 2) ?? String(value)
}

/** One line with a copy button: a command, an address, an id. */
export function CodeLine({ text, label }: { readonly text: string; readonly label: string }): ReactNode {
  return (
    <div className="code one">
      <pre>{visibleText(text)}</pre>
      <CopyButton text={text} label={WORDS.copy(label)} />
    </div>
  )
}

/** Removed, added and unchanged lines. A sign marks the kind of a line, so that it does not depend on colour. */
export function Diff({ lines, label }: DiffProps): ReactNode {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable with the keyboard.
    <div className="diff" tabIndex={0} role="group" aria-label={label}>
      {lines.map(({ kind, text }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no names and keep their order.
        <div key={index} className={kind === 'same' ? undefined : kind}>
          <span>
            {kind !== 'same' && <span className="vh">{kind === 'add' ? WORDS.added : WORDS.removed}</span>}
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
