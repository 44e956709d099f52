import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { serverQuery } from '../../api/server.ts'
import { Section } from '../../app/page.tsx'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { Note } from '../../parts/meaning.tsx'
import { Found } from '../../parts/states.tsx'
import { type Reloaded, reloadConfig } from './settings-data.ts'
import { WORDS } from './words.tsx'

/*
 * The server and its config. `page.tsx` uses it.
 */

interface SectionProps {
  readonly onCommand: (command: string) => void
}

/** The version, address and store of the server. */
export function Server({ onCommand }: SectionProps): ReactNode {
  const server = useQuery(serverQuery())
  return (
    <Section id="server" title={WORDS.server} onEnter={() => onCommand('collet version')}>
      <div className="stack-3">
        <Found query={server} what={WORDS.server2}>
          {({ version, url, store, needs_key }) => (
            <dl className="kv">
              <dt>{WORDS.version}</dt>
              <dd>{version}</dd>
              <dt>{WORDS.address}</dt>
              <dd className="mono clip">{url}</dd>
              <dt>{WORDS.store}</dt>
              <dd>{store}</dd>
              <dt>{WORDS.callers}</dt>
              <dd>{needs_key ? WORDS.needCredential : WORDS.needNoCredential}</dd>
            </dl>
          )}
        </Found>
      </div>
    </Section>
  )
}

/** Reloads the config on all servers of the store. */
export function Config({ onCommand }: SectionProps): ReactNode {
  const [answer, setAnswer] = useState<Reloaded>()
  const { isBusy, failure, run } = useAction(async () => {
    setAnswer(undefined)
    setAnswer(await reloadConfig())
  })
  return (
    <Section
      id="config"
      title={WORDS.config}
      scope="admin:reload"
      isOfServer
      onEnter={() => onCommand('collet reload')}
      actions={
        <Button isSmall icon="loop" writes isBusy={isBusy} onClick={run}>
          {WORDS.reloadConfig}
        </Button>
      }
    >
      <div className="stack-3" role="status">
        {answer === undefined && failure === undefined && (
          <p className="soft">{WORDS.serverReadsItsFileAgain}</p>
        )}
        {failure !== undefined && (
          <Note tone="failed">
            <span className="as-written">{failure}</span>
          </Note>
        )}
        {answer !== undefined && <ReloadResult answer={answer} />}
      </div>
    </Section>
  )
}

function ReloadResult({ answer }: { readonly answer: Reloaded }): ReactNode {
  const { applied, needs_restart = [], refused = [] } = answer
  const isNothing = applied?.length === 0 && needs_restart.length === 0 && refused.length === 0
  return (
    <dl className="kv">
      {isNothing && (
        <>
          <dt>{WORDS.changed}</dt>
          <dd>{WORDS.nothing}</dd>
        </>
      )}
      {applied !== null && applied.length > 0 && (
        <>
          <dt>{WORDS.applied}</dt>
          <dd className="mono">{applied.join(', ')}</dd>
        </>
      )}
      {needs_restart.length > 0 && (
        <>
          <dt>{WORDS.needsRestart}</dt>
          <dd className="mono is-parked">{needs_restart.join(', ')}</dd>
        </>
      )}
      {refused.length > 0 && (
        <>
          <dt>{WORDS.unchanged}</dt>
          <dd className="is-failed">{refused.join(' ')}</dd>
        </>
      )}
    </dl>
  )
}
