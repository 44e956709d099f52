import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { IconButton } from '../../parts/button.tsx'
import { shortHash } from '../../parts/format.ts'
import { StateMark, Tier, ToolName } from '../../parts/meaning.tsx'
import { Failed, Loading } from '../../parts/states.tsx'
import { Tabs } from '../../parts/tabs.tsx'
import { Timeline } from '../../parts/timeline.tsx'
import { type CallDetails, callerText, callQuery } from './api.ts'
import { ConversationLink, protocolName, RunAgain, StopCall, TraceId, versionOf } from './call-facts.tsx'
import { timelineOf, timesOf } from './call-timeline.tsx'
import { Contents, JournalRows } from './contents.tsx'

/*
 * The call that is open beside the list. Used by `page.tsx`.
 */

export function CallDetail({ record, tab, onTab, onClose }: CallDetailProps): ReactNode {
  const { data: call, error, refetch } = useQuery(callQuery(record))
  return (
    <aside className="call" aria-label="Call">
      {call !== undefined && <LoadedCall call={call} tab={tab} onTab={onTab} onClose={onClose} />}
      {call === undefined && (
        <header className="call-head">
          <div className="row">
            <h2 className="grow clip mono">{record.slice(0, 12)}</h2>
            <IconButton icon="close" label="Close call" onClick={onClose} />
          </div>
          {error === null ? (
            <Loading what="the call" />
          ) : (
            <Failed what="The call could not be shown" error={error} onRetry={() => void refetch()} />
          )}
        </header>
      )}
    </aside>
  )
}

interface CallDetailProps {
  readonly record: string
  readonly tab: string
  readonly onTab: (tab: string) => void
  readonly onClose: () => void
}

function LoadedCall({
  call,
  tab,
  onTab,
  onClose,
}: Omit<CallDetailProps, 'record'> & { readonly call: CallDetails }): ReactNode {
  const rows = call.journal.reduce((sum, { events }) => sum + events.length, 0)
  return (
    <>
      <header className="call-head">
        <div className="row">
          <h2 className="grow clip">
            <ToolName name={call.tool} />
            <span className="mono dim ver">{versionOf(call.tool)}</span>
          </h2>
          <IconButton icon="close" label="Close call" onClick={onClose} />
        </div>
        <p className="row call-line">
          <StateMark state={call.state} />
          <span className="dim">·</span>
          <Tier tier={call.safety_tier} />
          <span className="dim">·</span>
          <span className="num soft">{timesOf(call)}</span>
        </p>
        <dl className="kv call-kv">
          <dt>Record</dt>
          <dd className="mono clip" title={call.record}>
            {shortHash(call.record)}
          </dd>
          <dt>Call ID</dt>
          <dd className="mono clip" title={call.call_id}>
            {call.call_id}
          </dd>
          <dt>Caller</dt>
          <dd className="mono clip" title={callerText(call)}>
            {callerText(call)}
          </dd>
          <dt>Protocol</dt>
          <dd>{protocolName(call)}</dd>
          <dt>Run</dt>
          <dd>
            <ConversationLink call={call} kind="run" id={call.run_id} label={shortHash(call.run_id)} />
          </dd>
          <dt>Trace</dt>
          <dd>
            <TraceId call={call} />
          </dd>
          <dt>Definition</dt>
          <dd className="mono clip" title={call.definition_hash}>
            {shortHash(call.definition_hash)}
          </dd>
        </dl>
      </header>
      <Tabs
        label="About this call"
        className="call-tabs"
        value={tab}
        onChange={onTab}
        tabs={[
          {
            id: 'timeline',
            title: 'Timeline',
            panel: <Timeline label="What happened" events={timelineOf(call)} />,
          },
          {
            id: 'contents',
            title: 'Input and output',
            panel: (
              <div className="panel">
                <Contents call={call} />
              </div>
            ),
          },
          {
            id: 'journal',
            title: (
              <>
                Journal rows<span className="count">{rows}</span>
              </>
            ),
            panel: <JournalRows rows={call.journal} />,
          },
        ]}
      />
      <footer className="call-foot">
        <RunAgain call={call} />
        <StopCall call={call} />
        <span className="grow" />
        <Link className="link meta" to="/calls/$record" params={{ record: call.record }}>
          {call.state === 'ambiguous' ? 'Settle on its page' : 'Open page'}
        </Link>
      </footer>
    </>
  )
}
