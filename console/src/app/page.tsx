import { type ReactNode, useEffect, useRef } from 'react'
import { connection } from '../api/connection.ts'
import { Button } from '../parts/button.tsx'
import { formatClock } from '../parts/format.ts'
import { Banner } from '../parts/meaning.tsx'
import { visibleText } from '../parts/visible-text.ts'
import { useStore } from '../store.ts'
import { AccountMenu } from './account-menu.tsx'
import { PageFooter } from './page-command.tsx'

/*
 * The layout of every page: a bar with the title, the content, and the terminal command. Used by every page. After navigation
 * the title gets the focus.
 */

export function Page({ title, before, heading, sub, actions, children }: PageProps): ReactNode {
  return (
    <div className="page">
      <title>{`${visibleText(title)} · Collet`}</title>
      <header className="bar">
        {before}
        <Heading>{heading ?? visibleText(title)}</Heading>
        {sub !== undefined && <span className="sub num">{sub}</span>}
        <span className="grow" />
        {actions}
        <AccountMenu isSmall />
      </header>
      <main id="main" tabIndex={-1}>
        <Offline />
        {children}
      </main>
      <PageFooter />
    </div>
  )
}

interface PageProps {
  /** Title of the window. */
  readonly title: string
  /** Shown before the title: a link to the parent page. */
  readonly before?: ReactNode
  /** Replaces the title in the bar, for example a tool name in two colours. */
  readonly heading?: ReactNode
  readonly sub?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
}

let isFirst = true

/** Takes the focus after navigation, so that screen readers start at the title. */
function Heading({ children }: { readonly children: ReactNode }): ReactNode {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    if (isFirst) isFirst = false
    else heading.current?.focus({ preventScroll: true })
  }, [])
  return (
    <h1 ref={heading} tabIndex={-1}>
      {children}
    </h1>
  )
}

function Offline(): ReactNode {
  const state = useStore(connection)
  if (!state.isLost) return null
  return (
    <Banner
      icon="offline"
      action={
        <Button isSmall onClick={connection.tryNow}>
          Try now
        </Button>
      }
    >
      <b>Not connected since {formatClock(state.since)}.</b> What you see may be out of date. Buttons that
      change something are disabled until the connection is back.
    </Banner>
  )
}
