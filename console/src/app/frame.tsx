import { useQuery } from '@tanstack/react-query'
import { type ErrorComponentProps, Link, Outlet, useMatches } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { sessionQuery } from '../api/session.ts'
import { Empty, Failed, Loading } from '../parts/states.tsx'
import { Announcer } from './announcer.tsx'
import { KeyMap } from './key-map.tsx'
import { Page } from './page.tsx'
import { Palette } from './palette.tsx'
import { Rail } from './rail.tsx'
import { SignInDialog, SignInNeeded } from './sign-in.tsx'

/** Rail, page, and what may come over them. Places are shown once it is known who looks. */
export function Frame(): ReactNode {
  return (
    <>
      <a className="skip" href="#main">
        Skip to content
      </a>
      <div className="app">
        <Rail />
        <Place />
      </div>
      <Palette />
      <KeyMap />
      <SignInDialog />
      <Announcer />
    </>
  )
}

function Place(): ReactNode {
  const session = useQuery(sessionQuery)
  const needsSignIn = useMatches().some(({ staticData }) => staticData.needsSignIn === true)
  if (session.data === undefined)
    return (
      <Page title="Collet">
        {session.error === null ? (
          <Loading what="the console" />
        ) : (
          <Failed
            what="The server could not be asked who you are"
            error={session.error}
            onRetry={() => void session.refetch()}
          />
        )}
      </Page>
    )
  const { principal, server } = session.data
  if (principal === null && (needsSignIn || !server.isOpen))
    return (
      <Page title="Sign in">
        <SignInNeeded isOpen={server.isOpen} />
      </Page>
    )
  return <Outlet />
}

export function NoSuchPage(): ReactNode {
  return (
    <Page title="No such page">
      <Empty
        title="There is no page at this address"
        actions={
          <Link className="btn sm" to="/catalog">
            Open the catalog
          </Link>
        }
      >
        It may have been a page of another version.
      </Empty>
    </Page>
  )
}

export function PageFailed({ error, reset }: ErrorComponentProps): ReactNode {
  return (
    <Page title="Not shown">
      <Failed what="This page could not be shown" error={error} safe="Nothing was changed." onRetry={reset} />
    </Page>
  )
}
