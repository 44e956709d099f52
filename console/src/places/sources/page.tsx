import { useQuery, useQueryClient } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { holdsServerScope, useSession } from '../../api/session.ts'
import { NeedsScope } from '../../app/needs-scope.tsx'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { Failed, Loading } from '../../parts/states.tsx'
import { AddSource } from './add-source.tsx'
import { Attention } from './attention.tsx'
import { bypassesQuery, type Pin, pinsQuery, type Source, sourcesQuery } from './source-data.ts'
import { BypassNotes, SourceList } from './source-list.tsx'
import './sources.css'
import { WORDS } from './words.tsx'

/*
 * The page of sources and their changed definitions. The router loads it. Without its scope it sends no requests.
 */

const SCOPE = 'admin:sources'

/** Sources, with problems first. Without its scope the page names it and sends no requests. */
export function SourcesPage(): ReactNode {
  const client = useQueryClient()
  const principal = useSession()?.principal
  const seesSources = holdsServerScope(principal, SCOPE)
  const sources = useQuery({ ...sourcesQuery, enabled: seesSources })
  const bypasses = useQuery({ ...bypassesQuery, enabled: seesSources })
  const pins = useQuery({ ...pinsQuery, enabled: holdsServerScope(principal, 'admin:pins') })
  usePageCommand(pageCommandOf(sources.data ?? [], pins.data ?? []))
  const changed = (): void => {
    void client.invalidateQueries({ queryKey: ['sources'] })
    void client.invalidateQueries({ queryKey: [WORDS.waitingCounts] })
    // Changes here also change the tools and the start page.
    for (const queryKey of [['tools'], ['tool'], ['start']]) void client.invalidateQueries({ queryKey })
  }
  return (
    <Page
      title={WORDS.sources}
      actions={seesSources && <AddSource known={sources.data ?? []} onAdded={changed} />}
    >
      <div className="conn">
        {(sources.data !== undefined || !seesSources) && (
          <Attention sources={sources.data ?? []} pins={pins.data ?? []} onChanged={changed} />
        )}
        <section aria-labelledby="src">
          {sources.data !== undefined ? (
            <SourceList sources={sources.data} pins={pins.data} onChanged={changed} />
          ) : seesSources ? (
            <NotThere error={sources.error} onRetry={() => void sources.refetch()} />
          ) : (
            <>
              <h2 id="src">{WORDS.sources}</h2>
              <NeedsScope scope={SCOPE} />
            </>
          )}
          {bypasses.data !== undefined && <BypassNotes bypasses={bypasses.data} />}
        </section>
      </div>
    </Page>
  )
}

/** The command for the most urgent problem, or for the list of sources. */
function pageCommandOf(sources: readonly Source[], pins: readonly Pin[]): string {
  const down = sources.find(({ state }) => state === 'down')
  if (down !== undefined) return `collet sources check ${down.key}`
  const held = pins.find(({ waiting }) => waiting?.rejected_by === null)
  return held === undefined ? 'collet sources' : `collet pins diff ${held.tool}`
}

function NotThere({ error, onRetry }: { readonly error: unknown; readonly onRetry: () => void }): ReactNode {
  if (error === null) return <Loading what={WORDS.sources2} />
  return (
    <Failed what={WORDS.sourcesCouldNotBeRead} error={error} safe={WORDS.theyKeepRunning} onRetry={onRetry} />
  )
}
