import { useQuery } from '@tanstack/react-query'
import { type ErrorComponentProps, Link, Outlet, useMatches } from '@tanstack/react-router'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { fetchResponse } from '../api/client.ts'
import { connection } from '../api/connection.ts'
import { sessionQuery } from '../api/session.ts'
import { timeZone } from '../parts/format.ts'
import { PartNotLoaded, reloadOnce } from '../parts/lazy-part.tsx'
import { Empty, Failed, Loading } from '../parts/states.tsx'
import { useStore } from '../store.ts'
import { Announcer } from './announcer.tsx'
import { KeyMap } from './key-map.tsx'
import { Page } from './page.tsx'
import { Palette } from './palette/palette.tsx'
import { SignInDialog, SignInNeeded } from './person/sign-in.tsx'
import { Rail } from './rail.tsx'
import { WORDS } from './words.tsx'

/*
 * The rail, the open page and the dialogs over it, and the pages for errors. Loaded by the router. A page is shown only once the
 * session is known.
 */

export function Frame(): ReactNode {
  return (
    <>
      <a className="skip" href="#main">
        {WORDS.skipContent}
      </a>
      <div className="app">
        <Rail />
        {/* A new key draws the page again, with times in the chosen zone. */}
        <CurrentPage key={useStore(timeZone)} />
        {/* Inside the frame: below it, the hidden text would make the document taller than the window. */}
        <Announcer />
      </div>
      <Palette />
      <KeyMap />
      <SignInDialog />
    </>
  )
}

function CurrentPage(): ReactNode {
  const session = useQuery(sessionQuery)
  const needsSignIn = useMatches().some(({ staticData }) => staticData.needsSignIn === true)
  if (session.data === undefined)
    return (
      <Page title={WORDS.collet}>
        {session.error === null ? (
          <Loading what={WORDS.console} />
        ) : (
          <Failed
            what={WORDS.sessionCouldNotBeRead}
            error={session.error}
            onRetry={() => void session.refetch()}
          />
        )}
      </Page>
    )
  const { principal, server } = session.data
  if (principal === null && (needsSignIn || !server.isOpen))
    return (
      <Page title={WORDS.signIn}>
        <SignInNeeded isKeyless={server.isOpen} />
      </Page>
    )
  return <Outlet />
}

export function NoSuchPage(): ReactNode {
  return (
    <Page title={WORDS.noSuchPage}>
      <Empty
        title={WORDS.thereNoPageAtThis}
        actions={
          <Link className="btn sm" to="/tools">
            {WORDS.openTools}
          </Link>
        }
      >
        {WORDS.addressMayBelongAnotherVersion}
      </Empty>
    </Page>
  )
}

export function PageFailed({ error, reset }: ErrorComponentProps): ReactNode {
  return (
    <Page title={WORDS.notShown}>
      {error instanceof PartNotLoaded ? (
        <NotLoaded error={error} />
      ) : (
        <Failed
          what={WORDS.thisPageCouldNotBe}
          error={error}
          safe={WORDS.nothingWasChanged}
          onRetry={reset}
        />
      )}
    </Page>
  )
}

/**
 * Reloads the page when the server is back, or at once if the page belongs to an older version. A reload is needed because
 * browsers remember a file that failed to load until the page is left.
 */
function NotLoaded({ error }: { readonly error: PartNotLoaded }): ReactNode {
  const { isLost } = useStore(connection)
  const [showsFailure, setShowsFailure] = useState(false)
  useEffect(() => {
    error.forget()
    // The offline banner depends on the result of this request too.
    fetchResponse('/console/session').then(
      () => setShowsFailure(!reloadOnce()),
      () => setShowsFailure(true),
    )
  }, [error])
  const wasLost = useRef(isLost)
  useEffect(() => {
    if (wasLost.current && !isLost) location.reload()
    wasLost.current = isLost
  }, [isLost])
  if (!showsFailure) return <Loading what={WORDS.page} />
  return (
    <Failed
      what={WORDS.thisPageCouldNotBe2}
      error={error}
      safe={isLost ? WORDS.serverNotRespondingPageLoads : WORDS.nothingWasChanged}
      onRetry={() =>
        void fetchResponse('/console/session').then(
          () => location.reload(),
          () => undefined,
        )
      }
    />
  )
}
