import { type FocusEvent, type ReactNode, useEffect, useRef } from 'react'
import { connection } from '../api/connection.ts'
import { holdsScope, holdsServerScope, useSession } from '../api/session.ts'
import { Button } from '../parts/button.tsx'
import { formatClock } from '../parts/format.ts'
import { Banner } from '../parts/meaning.tsx'
import { visibleText } from '../parts/visible-text.ts'
import { useStore } from '../store.ts'
import { PageFooter } from './page-command.tsx'
import { AccountMenu } from './person/account-menu.tsx'
import { WORDS } from './words.tsx'

/*
 * The layout of every page: title, sections and terminal command. All pages use it. After navigation the title gets the focus.
 */

export function Page({ title, before, heading, sub, actions, children }: PageProps): ReactNode {
  return (
    <div className="page">
      <title>{WORDS.collet2(visibleText(title))}</title>
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

/** One section of a page. People without its scope do not see it, and no request is sent for them. */
export function Section(props: SectionProps): ReactNode {
  const { id, title, scope, isOfServer = false, actions, onEnter, children } = props
  const principal = useSession()?.principal
  const holds = isOfServer ? holdsServerScope : holdsScope
  if (scope !== undefined && !holds(principal, scope)) return null
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
        {actions}
      </div>
      {children}
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
          {WORDS.tryNow}
        </Button>
      }
    >
      {WORDS.whatYouSeeMayBe(<b>{WORDS.notConnectedSince(formatClock(state.since))}</b>)}
    </Banner>
  )
}
