import { type ReactNode, useEffect, useRef, useState } from 'react'
import { CopyButton } from '../../parts/button.tsx'
import { countOf, formatBytes } from '../../parts/format.ts'
import { Json } from '../../parts/long-code.tsx'
import { Note } from '../../parts/meaning.tsx'
import { Segment } from '../../parts/tabs.tsx'
import { visibleJson, visibleText } from '../../parts/visible-text.ts'
import type { WholeApproval } from './approval-data.ts'
import {
  type Argument,
  argumentsOf,
  foldAt,
  foldsOf,
  MAX_SHOWN_ARGUMENTS,
  MORE_ARGUMENTS,
  WHOLE_INPUT,
} from './argument-text.ts'
import { WORDS } from './words.tsx'

/*
 * Shows the whole input of a call that waits for approval. Used by `approval-screen.tsx`. It reports when the end has been seen.
 */

const VIEWS = [
  { value: 'readable', label: WORDS.readable },
  { value: 'json', label: 'JSON' },
] as const

interface ArgumentsProps {
  readonly approval: WholeApproval
  /** Called once all folds are open and the end of the arguments has been on screen. */
  readonly onSeen: () => void
}

/** The whole input of the call. It always wraps, and no part of it scrolls separately. */
export function Arguments({ approval, onSeen }: ArgumentsProps): ReactNode {
  const [view, setView] = useState<'readable' | 'json'>('readable')
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set())
  const { input, input_bytes: bytes, hidden_values: hidden, hides_something: hides } = approval
  const listed = view === 'json' ? undefined : argumentsOf(input, approval.summary)
  const json = listed === undefined ? visibleJson(input) : ''
  const folds = listed === undefined ? (foldAt(json) === undefined ? [] : [WHOLE_INPUT]) : foldsOf(listed)
  const closed = folds.filter((name) => !opened.has(name))
  const end = useSeenEnd(closed.length === 0, onSeen)
  const open = (...names: readonly string[]): void => setOpened(new Set([...opened, ...names]))
  return (
    <section aria-labelledby="args-h">
      <div className="sec-head">
        <h3 id="args-h">{WORDS.arguments}</h3>
        <span className="meta dim num grow">{formatBytes(bytes)}</span>
        {closed.length > 1 && (
          <button type="button" className="plain link meta" onClick={() => open(...closed)}>
            {WORDS.showEverything}
          </button>
        )}
        <Segment label={WORDS.viewArguments} value={view} options={VIEWS} onChange={setView} />
      </div>
      {listed === undefined ? (
        <div className="args whole">
          <div>
            <Foldable text={json} isJson isOpen={opened.has(WHOLE_INPUT)} onOpen={() => open(WHOLE_INPUT)} />
          </div>
          <CopyButton text={json} label={WORDS.copyArguments} />
        </div>
      ) : listed.length === 0 ? (
        <p className="args soft none">{WORDS.none}</p>
      ) : (
        <ArgumentList listed={listed} opened={opened} onOpen={open} />
      )}
      <div ref={end} />
      {hidden > 0 && (
        <Note tone="parked">
          {WORDS.hiddenFromYouCallerSent(countOf(hidden, 'value'), hidden === 1 ? 'is' : 'are')}
        </Note>
      )}
      {hides && hidden === 0 && <Note tone="parked">{WORDS.partInputNoLongerKept}</Note>}
    </section>
  )
}

/** Watches the element after the arguments, which counts as seen only while nothing before it is folded. */
function useSeenEnd(isUnfolded: boolean, onSeen: () => void) {
  const end = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (!isUnfolded || end.current === null) return undefined
    const observer = new IntersectionObserver((entries) => {
      if (entries.some(({ isIntersecting }) => isIntersecting)) onSeen()
    })
    observer.observe(end.current)
    return () => observer.disconnect()
  }, [isUnfolded, onSeen])
  return end
}

interface ArgumentListProps {
  readonly listed: readonly Argument[]
  readonly opened: ReadonlySet<string>
  readonly onOpen: (name: string) => void
}

function ArgumentList({ listed, opened, onOpen }: ArgumentListProps): ReactNode {
  const shown = opened.has(MORE_ARGUMENTS) ? listed : listed.slice(0, MAX_SHOWN_ARGUMENTS)
  const rest = listed.length - shown.length
  return (
    <>
      <dl className="args">
        {shown.map((argument) => (
          <div key={argument.name}>
            <dt dir="auto">{visibleText(argument.name)}</dt>
            <dd>
              <Value
                argument={argument}
                isOpen={opened.has(argument.name)}
                onOpen={() => onOpen(argument.name)}
              />
            </dd>
          </div>
        ))}
      </dl>
      {rest > 0 && (
        <ShowButton onClick={() => onOpen(MORE_ARGUMENTS)}>
          {WORDS.showRemaining(countOf(rest, 'argument'))}
        </ShowButton>
      )}
    </>
  )
}

interface ValueProps {
  readonly argument: Argument
  readonly isOpen: boolean
  readonly onOpen: () => void
}

/** Longer text is shown as prose instead of code. */
const MIN_PROSE = 60

function Value({ argument: { text, words, isJson }, isOpen, onOpen }: ValueProps): ReactNode {
  if (words !== undefined)
    return (
      <span className="argv">
        {words.map((word, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the words of a command have no names and keep their order.
          <code key={index}>{word}</code>
        ))}
      </span>
    )
  if (foldAt(text) !== undefined || (isJson && text.includes('\n')))
    return <Foldable text={text} isJson={isJson} isOpen={isOpen} onOpen={onOpen} />
  const isProse = !isJson && (text.length > MIN_PROSE || text.includes('\n'))
  return isProse ? (
    <span className="prose" dir="auto">
      {text}
    </span>
  ) : (
    <code dir="auto">{text}</code>
  )
}

interface FoldableProps {
  readonly text: string
  readonly isJson: boolean
  readonly isOpen: boolean
  readonly onOpen: () => void
}

/** Longer JSON is shown in one colour: an element for each token would block the page for seconds. */
const MAX_COLOURED = 20_000

/** A long text: its size, its beginning, and the rest on request. */
function Foldable({ text, isJson, isOpen, onOpen }: FoldableProps): ReactNode {
  const fold = foldAt(text)
  const shown = isOpen ? text : text.slice(0, fold)
  return (
    <>
      {fold !== undefined && <p className="meta dim num">{countOf(text.length, 'character')}</p>}
      <pre className="wrapped" dir={isJson ? undefined : 'auto'}>
        {isJson && shown.length <= MAX_COLOURED ? <Json text={shown} /> : shown}
      </pre>
      {fold !== undefined && !isOpen && (
        <ShowButton onClick={onOpen}>
          {WORDS.showRemaining2(countOf(text.length - fold, 'character'))}
        </ShowButton>
      )}
    </>
  )
}

function ShowButton({
  children,
  onClick,
}: {
  readonly children: string
  readonly onClick: () => void
}): ReactNode {
  return (
    <button type="button" className="plain link fold" onClick={onClick}>
      {children}
    </button>
  )
}
