import type { UseQueryResult } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { Button } from './button.tsx'
import { Icon } from './icon.tsx'
import { visibleText } from './visible-text.ts'
import { WORDS } from './words.tsx'

/*
 * The states of a list or request: empty, loading, failed, in progress. Used by several pages. Invisible characters in the message
 * of an error are escaped.
 */

/** An empty list. If a filter is set, callers name it and offer to clear it; otherwise they describe what will appear and when. */
export function Empty({ title, children, actions }: EmptyProps): ReactNode {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children !== undefined && <p>{children}</p>}
      {actions !== undefined && <p className="row">{actions}</p>}
    </div>
  )
}

interface EmptyProps {
  readonly title: ReactNode
  readonly children?: ReactNode
  readonly actions?: ReactNode
}

const LOADING_DELAY_MS = 200

/** Shows nothing for 200 ms, then grey bars in place of the rows. */
export function Loading({ what, rows = 6 }: { readonly what: string; readonly rows?: number }): ReactNode {
  const [isShown, setShown] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), LOADING_DELAY_MS)
    return () => clearTimeout(timer)
  }, [])
  if (!isShown) return null
  return (
    <div className="skeleton" role="status" aria-label={WORDS.loading(visibleText(what))}>
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the bars are identical.
        <span key={row}>
          <i />
          <i />
          <i />
        </span>
      ))}
    </div>
  )
}

/** A failed request: the server's message, what is safe, and how to continue. */
export function Failed({ what, error, safe, onRetry, children }: FailedProps): ReactNode {
  return (
    <div className="empty" role="alert">
      <Icon name="failed" className="is-failed" />
      <h2>{what}</h2>
      <p>
        {messageOf(error)} {safe}
      </p>
      <p className="row">
        {onRetry !== undefined && (
          <Button isSmall onClick={onRetry}>
            {WORDS.tryAgain}
          </Button>
        )}
        {children}
      </p>
    </div>
  )
}

interface FailedProps {
  /** "The journal could not be read" */
  readonly what: string
  readonly error: unknown
  /** "Calls already recorded are safe." */
  readonly safe?: string
  readonly onRetry?: () => void
  readonly children?: ReactNode
}

/** The message of an error. It may quote untrusted text from the page's address, so hidden characters are made visible. */
export function messageOf(error: unknown): string {
  return visibleText(error instanceof Error ? error.message : String(error))
}

/** A long task: name, progress, steps, and a button to stop it. */
export function Work({ title, done, total, steps, onStop }: WorkProps): ReactNode {
  return (
    <div className="work">
      <p className="row">
        <span className="strong grow">{title}</span>
        {total !== undefined && <span className="num soft">{WORDS.of(done, total)}</span>}
      </p>
      {total !== undefined && <Meter label={title} value={done ?? 0} max={total} isRunning />}
      <ul className="meta">
        {steps?.map(({ text, state }) => (
          <li key={text} className={state === 'alert' ? 'row is-parked' : 'row soft'}>
            <Icon {...STEP_ICONS[state]} size={14} />
            {text}
          </li>
        ))}
      </ul>
      {onStop !== undefined && (
        <Button isSmall onClick={onStop}>
          {WORDS.stop}
        </Button>
      )}
    </div>
  )
}

interface WorkProps {
  readonly title: string
  readonly done?: number
  readonly total?: number
  readonly steps?: readonly { readonly text: string; readonly state: keyof typeof STEP_ICONS }[]
  readonly onStop?: () => void
}

const STEP_ICONS = {
  done: { name: 'succeeded', className: 'is-quiet' },
  running: { name: 'running', className: 'is-running spin' },
  failed: { name: 'failed', className: 'is-failed' },
  alert: { name: 'alert', className: 'is-parked' },
  waiting: { name: 'skipped', className: 'is-quiet' },
} as const

const WARNING_SHARE = 0.9

/** How much of a limit is used. Amber from 90 %. */
export function Meter({ label, value, max, isRunning = false }: MeterProps): ReactNode {
  const part = max <= 0 ? 0 : Math.min(value / max, 1)
  const tone = isRunning ? 'run' : part >= WARNING_SHARE ? 'warn' : ''
  return (
    // biome-ignore lint/a11y/useAriaPropsSupportedByRole: both roles have a value.
    <svg
      className={`meter ${tone}`.trim()}
      role={isRunning ? 'progressbar' : 'meter'}
      aria-label={label}
      aria-valuenow={Math.round(part * 100)}
      aria-valuemin={0}
      aria-valuemax={100}
    >
      <rect width={`${part * 100}%`} height="4" rx="2" />
    </svg>
  )
}

interface MeterProps {
  readonly label: string
  readonly value: number
  readonly max: number
  readonly isRunning?: boolean
}

/** The result of a query, its loading state or its error. */
export function Found<Data>({ query, what, children }: FoundProps<Data>): ReactNode {
  if (query.data !== undefined) return children(query.data)
  if (query.error !== null)
    return (
      <Failed what={WORDS.couldNotBeRead(what)} error={query.error} onRetry={() => void query.refetch()} />
    )
  return <Loading what={what} rows={3} />
}

interface FoundProps<Data> {
  readonly query: UseQueryResult<Data>
  /** "The keys" */
  readonly what: string
  readonly children: (data: Data) => ReactNode
}
