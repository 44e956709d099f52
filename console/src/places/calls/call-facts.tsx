import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { requestJson } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { useSession } from '../../api/session.ts'
import { passInput } from '../../app/passed-input.ts'
import { Button, CopyButton } from '../../parts/button.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { shortHash } from '../../parts/format.ts'
import { Tier, ToolName } from '../../parts/meaning.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { type CallDetails, callerText, callQuery, contentsQuery } from './api.ts'
import { stepNameOf } from './call-timeline.tsx'
import { words } from './words.ts'

/*
 * The facts of one call, and its actions: try it again, or stop it. Used by `call-page.tsx` and `detail.tsx`.
 */

const PROTOCOLS: Readonly<Record<string, string>> = {
  otc: 'OTC',
  mcp: 'MCP',
  opentool: 'OpenTool',
  openwop: 'openwop',
  embedded: 'this process',
}

export function protocolName({ protocol }: CallDetails): string {
  return protocol === null ? 'unknown' : (PROTOCOLS[protocol] ?? protocol)
}

/** A trace id to copy: the server does not know where people view traces. */
export function TraceId({ call }: { readonly call: CallDetails }): ReactNode {
  if (call.trace_id === '') return <span className="dim">none</span>
  return (
    <span className="row">
      <ConversationLink call={call} kind="trace" id={call.trace_id} label={shortHash(call.trace_id)} />
      <CopyButton text={call.trace_id} label="Copy trace id" />
    </span>
  )
}

/** A link to all calls of the call's run, session or trace. */
export function ConversationLink({ call, kind, id, label = id }: ConversationLinkProps): ReactNode {
  return (
    <Link
      className="link mono clip"
      to="/calls/conversation"
      search={{ [kind]: id, at: call.created_at }}
      title={`${words.showConversation[kind]}: ${visibleText(id)}`}
    >
      {visibleText(label)}
    </Link>
  )
}

interface ConversationLinkProps {
  readonly call: CallDetails
  readonly kind: 'run' | 'session' | 'trace'
  readonly id: string
  readonly label?: string
}

/** Caller, tool, protocol and key of a call. */
export function CallFacts({ call }: { readonly call: CallDetails }): ReactNode {
  return (
    <section aria-labelledby="facts-title">
      <h2 id="facts-title" className="vh">
        Facts
      </h2>
      <dl className="facts">
        <Fact name="Tool">
          <span className="row">
            <Link
              to="/tools/$id"
              params={{ id: baseOf(call.tool) }}
              search={{ version: versionOf(call.tool) }}
            >
              <ToolName name={call.tool} />
            </Link>
            <span className="mono dim">{versionOf(call.tool)}</span>
            <Tier tier={call.safety_tier} />
          </span>
        </Fact>
        <Fact name="Caller">
          <code>{callerText(call)}</code> over {protocolName(call)}
          {call.user_id !== null && (
            <>
              , for <b>{call.user_id}</b>
            </>
          )}
          , tenant {call.tenant}
        </Fact>
        <Fact name="Call ID">
          <code>{call.call_id}</code>
          {call.state === 'ambiguous' && ', reserved until this is settled'}
        </Fact>
        {call.attempt > 1 && <Fact name="Attempts">{call.attempt}</Fact>}
        {call.parent !== null && (
          <Fact name="Step of">
            <StepOf call={call} parent={call.parent} />
          </Fact>
        )}
        {call.waits_for !== null && call.waits_for !== '' && (
          <Fact name="Waits for">
            <Link to="/calls/$record" params={{ record: call.waits_for }} className="link mono">
              {shortHash(call.waits_for)}
            </Link>
          </Fact>
        )}
        <Fact name="Run">
          <ConversationLink call={call} kind="run" id={call.run_id} />
        </Fact>
        {call.session_id !== null && (
          <Fact name="Session">
            <ConversationLink call={call} kind="session" id={call.session_id} />
          </Fact>
        )}
        <Fact name="Trace">
          <TraceId call={call} />
        </Fact>
        <Fact name="Definition">
          <code title={call.definition_hash}>{shortHash(call.definition_hash)}</code>
        </Fact>
      </dl>
    </section>
  )
}

/** A link to the workflow, and the workflow's name for this step. */
function StepOf({ call, parent }: { readonly call: CallDetails; readonly parent: string }): ReactNode {
  const { data: workflow } = useQuery(callQuery(parent))
  const name = workflow === undefined ? undefined : stepNameOf(call, workflow)
  return (
    <>
      <Link to="/calls/$record" params={{ record: parent }} className="link mono" title={parent}>
        {workflow === undefined ? shortHash(parent) : <ToolName name={workflow.tool} />}
      </Link>
      {name !== undefined && (
        <>
          , as <b>{visibleText(name)}</b>
        </>
      )}
    </>
  )
}

function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }): ReactNode {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

function baseOf(tool: string): string {
  return tool.replace(/@.*$/, '')
}

export function versionOf(tool: string): string {
  return /@(.*)$/.exec(tool)?.[1] ?? ''
}

/** Opens Try it with the input of this call. Reading the input is journaled; without the scope, the form is empty. */
export function RunAgain({ call }: { readonly call: CallDetails }): ReactNode {
  const contents = useQuery(contentsQuery(call.record))
  const navigate = useNavigate()
  const [isBusy, setBusy] = useState(false)
  const mayRead = call.contents === 'unasked' || call.contents === 'shown'
  const open = async (): Promise<void> => {
    setBusy(true)
    const shown = mayRead ? (contents.data ?? (await contents.refetch()).data) : undefined
    setBusy(false)
    const hasInput = shown?.input !== undefined
    if (hasInput) passInput(call.record, shown.input)
    await navigate({
      to: '/tools/$id',
      params: { id: baseOf(call.tool) },
      search: { version: versionOf(call.tool) },
      ...(hasInput ? { state: { inputOf: call.record } } : {}),
    })
  }
  return (
    <Button
      isSmall
      icon="play"
      isBusy={isBusy}
      title={mayRead ? words.runAgainTitle : undefined}
      onClick={() => void open()}
    >
      {mayRead ? words.runAgain : words.openTryIt}
    </Button>
  )
}

/** Only the caller can stop a running call. */
export function StopCall({ call }: { readonly call: CallDetails }): ReactNode {
  const principal = useSession()?.principal
  const [isAsking, setAsking] = useState(false)
  const isOwn = principal?.id === call.principal && principal.tenant === call.tenant
  if (!isOwn || (call.state !== 'running' && call.state !== 'parked')) return null
  const stop = async (): Promise<void> => {
    await requestJson(`/calls/${encodeURIComponent(call.call_id)}`, { method: 'DELETE' })
    await queries.invalidateQueries({ queryKey: ['call', call.record] })
  }
  return (
    <>
      <Button kind="danger" isSmall writes onClick={() => setAsking(true)}>
        Stop call…
      </Button>
      <ConfirmDialog
        title="Stop this call?"
        verb="Stop call"
        keep="Keep running"
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        onConfirm={stop}
      >
        <p>
          The tool is asked to stop, and the call fails. Effects so far remain: check before you repeat it.
        </p>
      </ConfirmDialog>
    </>
  )
}
