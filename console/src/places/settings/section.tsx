import type { UseQueryResult } from '@tanstack/react-query'
import type { FocusEvent, ReactNode } from 'react'
import { holdsScope, holdsServerScope, useSession } from '../../api/session.ts'
import { NeedsScope } from '../../app/needs-scope.tsx'
import { Failed, Loading } from '../../parts/states.tsx'

/*
 * One section of Settings, and the states of its query. Several pages use it. Without its scope a section sends no requests.
 */

/** One section of the page. For people without its scope, the section names the scope and sends no requests. */
export function Section(props: SectionProps): ReactNode {
  const { id, title, scope, isOfServer = false, actions, onEnter, children } = props
  const principal = useSession()?.principal
  const holds = isOfServer ? holdsServerScope : holdsScope
  const isAllowed = scope === undefined || holds(principal, scope)
  // A dialog is in the section's React tree but not in its element, and sets its own command.
  const enter = ({ target, currentTarget }: FocusEvent<HTMLElement>): void => {
    if (currentTarget.contains(target)) onEnter()
  }
  return (
    <section id={id} aria-labelledby={`${id}-h`} tabIndex={-1} onFocusCapture={enter}>
      <div className="sec-head">
        <h2 id={`${id}-h`} className="grow">
          {title}
        </h2>
        {isAllowed && actions}
      </div>
      {isAllowed ? children : <NeedsScope scope={scope} />}
    </section>
  )
}

interface SectionProps {
  readonly id: string
  readonly title: string
  /** The required scope, if any. */
  readonly scope?: string
  /** Whether the section concerns all tenants. */
  readonly isOfServer?: boolean
  readonly actions?: ReactNode
  /** Called when the section gets the focus, to set the command below the page. */
  readonly onEnter: () => void
  readonly children: ReactNode
}

/** The result of a query, its loading state or its error. */
export function Found<Data>({ query, what, children }: FoundProps<Data>): ReactNode {
  if (query.data !== undefined) return children(query.data)
  if (query.error !== null)
    return (
      <Failed what={`${what} could not be read`} error={query.error} onRetry={() => void query.refetch()} />
    )
  return <Loading what={what} rows={3} />
}

interface FoundProps<Data> {
  readonly query: UseQueryResult<Data>
  /** "The keys" */
  readonly what: string
  readonly children: (data: Data) => ReactNode
}
