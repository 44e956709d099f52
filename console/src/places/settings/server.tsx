import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { serverQuery } from '../../api/server.ts'
import { Section } from '../../app/page.tsx'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { Note } from '../../parts/meaning.tsx'
import { Found } from '../../parts/states.tsx'
import { type Reloaded, reloadConfig } from './settings-data.ts'

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
    <Section id="server" title="Server" onEnter={() => onCommand('collet version')}>
      <div className="stack-3">
        <Found query={server} what="The server">
          {({ version, url, store, needs_key }) => (
            <dl className="kv">
              <dt>Version</dt>
              <dd>{version}</dd>
              <dt>Address</dt>
              <dd className="mono clip">{url}</dd>
              <dt>Store</dt>
              <dd>{store}</dd>
              <dt>Callers</dt>
              <dd>{needs_key ? 'need a credential' : 'need no credential'}</dd>
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
      title="Config"
      scope="admin:reload"
      isOfServer
      onEnter={() => onCommand('collet reload')}
      actions={
        <Button isSmall icon="loop" writes isBusy={isBusy} onClick={run}>
          Reload config
        </Button>
      }
    >
      <div className="stack-3" role="status">
        {answer === undefined && failure === undefined && (
          <p className="soft">
            The server reads its file again. Running calls continue. An invalid file changes nothing.
          </p>
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
          <dt>Changed</dt>
          <dd>nothing</dd>
        </>
      )}
      {applied !== null && applied.length > 0 && (
        <>
          <dt>Applied</dt>
          <dd className="mono">{applied.join(', ')}</dd>
        </>
      )}
      {needs_restart.length > 0 && (
        <>
          <dt>Needs a restart</dt>
          <dd className="mono is-parked">{needs_restart.join(', ')}</dd>
        </>
      )}
      {refused.length > 0 && (
        <>
          <dt>Unchanged</dt>
          <dd className="is-failed">{refused.join(' ')}</dd>
        </>
      )}
    </dl>
  )
}
