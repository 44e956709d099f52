import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useLive } from '../../api/live.ts'
import { NeedsScope } from '../../app/needs-scope.tsx'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { CopyButton } from '../../parts/button.tsx'
import { Icon } from '../../parts/icon.tsx'
import { StateMark } from '../../parts/meaning.tsx'
import { Failed, Loading } from '../../parts/states.tsx'
import { Timeline } from '../../parts/timeline.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { type CallDetails, callQuery, useHoldsScope } from './api.ts'
import { CallFacts, RunAgain, StopCall } from './call-facts.tsx'
import { timelineOf, timesOf, titleOf } from './call-timeline.tsx'
import { Contents, JournalRows } from './contents.tsx'
import { showCommand } from './query.ts'
import { SettleForm } from './settle.tsx'
import './calls.css'
import './call.css'

/*
 * The page of one call: facts, timeline and actions. Loaded by the router. Without the scope, the page names it.
 */

/** Names the missing scope for people who may not see calls. */
export function CallPage(): ReactNode {
  const { record = '' } = useParams({ strict: false })
  if (useHoldsScope('admin:calls')) return <OneCall record={record} />
  return (
    <Page title="Call" heading={<Heading record={record} />}>
      <NeedsScope scope="admin:calls" />
    </Page>
  )
}

function OneCall({ record }: { readonly record: string }): ReactNode {
  const { data: call, error, refetch } = useQuery(callQuery(record))
  const canSettle = useHoldsScope('calls:settle') && call?.state === 'ambiguous'
  // An open call is followed, together with its steps.
  const isOpen = call?.finished_at == null
  const params = new URLSearchParams(
    call === undefined ? {} : { principal: call.principal, tenant: call.tenant },
  )
  useLive(call === undefined || !isOpen ? null : `/admin/calls/events?${params}`, ({ type, data }) => {
    const {
      calls = [],
    }: { readonly calls?: readonly { readonly record: string; readonly parent: string | null }[] } =
      JSON.parse(data)
    if (type === 'calls' && calls.some((other) => other.record === record || other.parent === record))
      void refetch()
  })
  if (call === undefined)
    return (
      <Page title="Call" heading={<Heading record={record} />}>
        {error === null ? (
          <Loading what="the call" />
        ) : (
          <Failed what="The call could not be shown" error={error} onRetry={() => void refetch()}>
            <Link className="btn sm" to="/calls">
              All calls
            </Link>
          </Failed>
        )}
      </Page>
    )
  return (
    <Page
      title={titleOf(call)}
      heading={<Heading record={record} />}
      sub={<StateMark state={call.state} />}
      actions={
        <>
          <StopCall call={call} />
          <RunAgain call={call} />
          {call.trace_id !== '' && (
            <CopyButton text={call.trace_id} label="Copy trace id">
              Trace
            </CopyButton>
          )}
        </>
      }
    >
      {/* The form to settle sets the page's command itself. */}
      {!canSettle && <ShowCommand record={record} />}
      <div className="split one-call">
        <div className="one-left">
          {call.state === 'ambiguous' && <OutcomeUnknown />}
          <CallFacts call={call} />
          <section aria-labelledby="timeline-title">
            <h2 id="timeline-title">Timeline</h2>
            <p className="meta dim num">{timesOf(call)}</p>
            <Timeline label="What happened" events={timelineOf(call)} isFlush />
          </section>
          <section aria-labelledby="rows-title" className="stack-3">
            <h2 id="rows-title">Journal rows</h2>
            <JournalRows rows={call.journal} />
          </section>
        </div>
        {call.state === 'ambiguous' ? <Ambiguous call={call} /> : <InputAndOutput call={call} />}
      </div>
    </Page>
  )
}

function ShowCommand({ record }: { readonly record: string }): ReactNode {
  usePageCommand(showCommand(record))
  return null
}

function Heading({ record }: { readonly record: string }): ReactNode {
  return (
    <>
      <Link to="/calls" className="crumb">
        Calls
      </Link>
      <span className="crumb" aria-hidden="true">
        /
      </span>
      <span className="mono-h clip" title={visibleText(record)}>
        {visibleText(record.slice(0, 12))}
      </span>
    </>
  )
}

function OutcomeUnknown(): ReactNode {
  return (
    <div className="note ambiguous">
      <Icon name="ambiguous" />
      <div>
        <p>
          <strong>Outcome unknown</strong>
        </p>
        <p>
          The process that ran this call died before it recorded an outcome. Collet will not run it again, and
          callers get this answer until an operator settles it.
        </p>
      </div>
    </div>
  )
}

function Ambiguous({ call }: { readonly call: CallDetails }): ReactNode {
  return (
    <div className="aside">
      <SettleForm call={call} />
      <InputAndOutput call={call} />
    </div>
  )
}

function InputAndOutput({ call }: { readonly call: CallDetails }): ReactNode {
  return (
    <section className="settle" aria-labelledby="contents-title">
      <h2 id="contents-title">Input and output</h2>
      <Contents call={call} />
    </section>
  )
}
