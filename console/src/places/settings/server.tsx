import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { serverQuery } from '../../api/server.ts'
import { Command } from '../../app/page-command.tsx'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { countOf, formatClock } from '../../parts/format.ts'
import { Note } from '../../parts/meaning.tsx'
import { Empty } from '../../parts/states.tsx'
import { Table } from '../../parts/table.tsx'
import { Found, Section } from './section.tsx'
import { type Refusal, type Reloaded, refusalsQuery, reloadConfig } from './settings-data.ts'

/*
 * The server, its config and the requests that it denied. `page.tsx` uses it.
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

const COLUMNS = [
  { title: 'When', className: 'c-when' },
  { title: 'Who', className: 'c-who' },
  { title: 'What' },
  { title: 'Why', className: 'c-why' },
  { title: 'Times', className: 'c-times', isEnd: true },
] as const

/** Requests that the server denied. */
export function Refusals({ onCommand }: SectionProps): ReactNode {
  return (
    <Section
      id="refusals"
      title="Denied requests"
      scope="audit:read"
      onEnter={() => onCommand('collet audit')}
    >
      <RefusalList />
    </Section>
  )
}

function RefusalList(): ReactNode {
  const found = useQuery(refusalsQuery)
  return (
    <Found query={found} what="The audit log">
      {({ refusals, isWhole }) =>
        refusals.length === 0 ? (
          <Empty title="No denied requests">
            Requests with an invalid credential, calls to forbidden tools, and denied approvals and admin
            requests appear here.
          </Empty>
        ) : (
          <>
            <Table caption="Denied requests" columns={COLUMNS} className="refusals">
              <tbody>
                {refusals.map((refusal) => (
                  <RefusalRow key={refusal.no} refusal={refusal} />
                ))}
              </tbody>
            </Table>
            <p className="meta dim after-table">
              The newest {countOf(refusals.length, 'denied request')}
              {isWhole ? (
                '.'
              ) : (
                <>
                  {' '}
                  in the first part of a long log. Run <Command text="collet audit" /> for the rest.
                </>
              )}
            </p>
          </>
        )
      }
    </Found>
  )
}

function RefusalRow({ refusal }: { readonly refusal: Refusal }): ReactNode {
  const { at, principal, principal_id, tenant, action, resource, reason, count } = refusal
  const who = (principal_id ?? principal).replace(/^key:/, '')
  return (
    <tr>
      <td className="num soft">{formatClock(at)}</td>
      <th scope="row" className="clip" title={`${who}, tenant ${tenant}`}>
        {who}
      </th>
      <td className="clip" title={resource}>
        {action} <code>{resource}</code>
      </td>
      <td data-l="why" className="soft">
        {reason}
      </td>
      <td data-l="times" className="num end soft">
        {count}
      </td>
    </tr>
  )
}
