import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Button } from '../../parts/button.tsx'
import { formatClock, formatDuration } from '../../parts/format.ts'
import { Icon, type IconName } from '../../parts/icon.tsx'
import { Note } from '../../parts/meaning.tsx'
import { messageOf } from '../../parts/states.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { checkSource, type Source } from './source-data.ts'

/*
 * Checks a source, and shows how to fix the first step that fails. `attention.tsx` and `source-list.tsx` use it.
 */

const NAMES: Readonly<Record<string, string>> = {
  resolve: 'Name',
  connect: 'Connection',
  tls: 'Certificate',
  program: 'Program',
  file: 'File',
  handshake: 'Handshake',
  list: 'Tools',
  definitions: 'Definitions',
}

const MARKS = {
  done: { icon: 'succeeded', className: 'is-quiet' },
  failed: { icon: 'failed', className: 'is-failed' },
  not_reached: { icon: 'skipped', className: 'is-quiet' },
} as const satisfies Readonly<Record<string, { icon: IconName; className: string }>>

interface DoctorProps {
  readonly source: Source
  /** The level of the heading: `h2` in a dialog, right below its title. */
  readonly level?: 'h2' | 'h3'
}

/** Checks a source, and shows each step and how to fix the first that fails. */
export function Doctor({ source, level: Heading = 'h3' }: DoctorProps): ReactNode {
  const { key, state, since } = source
  const checked = useQuery({
    queryKey: ['sources', 'check', key],
    queryFn: () => checkSource(key),
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  })
  return (
    <article className="card doctor" aria-labelledby={`doc-${key}`}>
      <header className="card-head">
        <Icon
          name={state === 'ready' ? 'succeeded' : 'failed'}
          className={state === 'ready' ? 'is-quiet' : 'is-failed'}
        />
        <Heading id={`doc-${key}`}>{key}</Heading>
        <span className="dim clip grow">{healthOf(source)}</span>
        <Button isSmall icon="loop" isBusy={checked.isFetching} onClick={() => void checked.refetch()}>
          Check again
        </Button>
      </header>
      {checked.data === undefined ? (
        <p className="advice soft">
          {checked.error === null ? `Checking. ${source.reason ?? ''}` : messageOf(checked.error)}
        </p>
      ) : (
        <>
          <ol className="steps" aria-label={`Steps to ${key}`}>
            {checked.data.steps.map(({ step, state: result, says, took_ms: took }) => (
              <li key={step} className={result === 'not_reached' ? 'dim' : undefined}>
                <Icon name={MARKS[result].icon} className={MARKS[result].className} />
                <span className="st">{NAMES[step] ?? step}</span>
                <span className={result === 'failed' ? 'grow strong' : 'grow clip'} dir="auto">
                  {visibleText(says)}
                </span>
                <span className="num dim">{took === null ? '' : formatDuration(took)}</span>
              </li>
            ))}
          </ol>
          <p className="advice">
            <b>Fix:</b> {visibleText(checked.data.advice)} {retryText(source)}
          </p>
        </>
      )}
      {checked.data?.ok === true && <SourceWarnings source={source} />}
      {checked.data?.ok === true && state === 'down' && (
        <Note>
          It answered this time. It has been unavailable since {formatClock(since)}, and the server will try
          again.
        </Note>
      )}
    </article>
  )
}

const MAX_REPORTED = 8

/** Warnings about a source that answers, and tools that were left out. */
function SourceWarnings({
  source: { reason, warnings, left_out: leftOut },
}: {
  readonly source: Source
}): ReactNode {
  const texts = [
    ...(reason === null ? [] : [reason]),
    ...warnings,
    ...leftOut.map(({ tool, problem, fix }) => `${tool}: ${problem} ${fix}`),
  ]
  const different = [...new Set(texts)]
  if (different.length === 0) return null
  return (
    <ul className="said-of">
      {different.slice(0, MAX_REPORTED).map((text) => (
        <li key={text} dir="auto">
          {visibleText(text)}
        </li>
      ))}
      {different.length > MAX_REPORTED && <li>and {different.length - MAX_REPORTED} more</li>}
    </ul>
  )
}

export function healthOf({ state, since }: Source): string {
  switch (state) {
    case 'ready':
      return 'Reachable'
    case 'starting':
      return 'Starting'
    case 'degraded':
      return `Degraded since ${formatClock(since)}`
    case 'down':
      return `Unavailable since ${formatClock(since)}`
  }
}

function retryText({ state, next_read_at: next, tools }: Source): string {
  if (state === 'ready') return ''
  const when = next === null ? '' : `Next try at ${formatClock(next)}. `
  return tools === 0 ? when : `${when}Until then, agents see its ${tools} accepted tools as unavailable.`
}
