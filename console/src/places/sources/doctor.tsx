import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Button } from '../../parts/button.tsx'
import { formatClock, formatDuration } from '../../parts/format.ts'
import { Icon, type IconName } from '../../parts/icon.tsx'
import { Note } from '../../parts/meaning.tsx'
import { messageOf } from '../../parts/states.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { checkSource, type Source } from './source-data.ts'
import { WORDS } from './words.tsx'

/*
 * Checks a source, and shows how to fix the first step that fails. `attention.tsx` and `source-list.tsx` use it.
 */

const NAMES: Readonly<Record<string, string>> = {
  resolve: WORDS.name,
  connect: WORDS.connection,
  tls: WORDS.certificate,
  program: WORDS.program,
  file: WORDS.file,
  handshake: WORDS.handshake,
  list: WORDS.tools,
  definitions: WORDS.definitions,
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
          {WORDS.checkAgain}
        </Button>
      </header>
      {checked.data === undefined ? (
        <p className="advice soft">
          {checked.error === null ? WORDS.checking(source.reason ?? '') : messageOf(checked.error)}
        </p>
      ) : (
        <>
          <ol className="steps" aria-label={WORDS.steps(key)}>
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
            <b>{WORDS.fix}</b> {visibleText(checked.data.advice)} {retryText(source)}
          </p>
        </>
      )}
      {checked.data?.ok === true && <SourceWarnings source={source} />}
      {checked.data?.ok === true && state === 'down' && (
        <Note>{WORDS.answeredThisTimeHasBeen(formatClock(since))}</Note>
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
      {different.length > MAX_REPORTED && <li>{WORDS.more(different.length - MAX_REPORTED)}</li>}
    </ul>
  )
}

export function healthOf({ state, since }: Source): string {
  switch (state) {
    case 'ready':
      return WORDS.reachable
    case 'starting':
      return WORDS.starting
    case 'degraded':
      return WORDS.degradedSince(formatClock(since))
    case 'down':
      return WORDS.unavailableSince(formatClock(since))
  }
}

function retryText({ state, next_read_at: next, tools }: Source): string {
  if (state === 'ready') return ''
  const when = next === null ? '' : WORDS.nextTryAt(formatClock(next))
  return tools === 0 ? when : WORDS.untilThenAgentsSeeIts(when, tools)
}
