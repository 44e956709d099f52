import type { UseQueryResult } from '@tanstack/react-query'
import type { FocusEvent, ReactNode } from 'react'
import { holdsScope, holdsServerScope, useSession } from '../../api/session.ts'
import { NeedsScope } from '../../app/needs-scope.tsx'
import { Failed, Loading } from '../../parts/states.tsx'

/** One part of the page. Whoever lacks the scope sees which one it is; nothing is asked of the server for them. */
export function Section(props: SectionProps): ReactNode {
  const { id, title, scope, isOfServer = false, actions, onEnter, children } = props
  const principal = useSession()?.principal
  const may = isOfServer ? holdsServerScope : holdsScope
  const isAllowed = scope === undefined || may(principal, scope)
  // What a dialog holds is in the section's tree and not on the page: it has a command of its own.
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
  /** What it takes to see it; left out: nothing. */
  readonly scope?: string
  /** It concerns all tenants. */
  readonly isOfServer?: boolean
  readonly actions?: ReactNode
  /** Somebody works in it now: the line under the page names its command. */
  readonly onEnter: () => void
  readonly children: ReactNode
}

/** What a query found, or that it looks, or why it did not. */
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
