import { Link } from '@tanstack/react-router'
import { type ReactNode, useEffect, useState } from 'react'
import { useSession } from '../../api/session.ts'
import { announce } from '../../app/announcer.tsx'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { formatClock } from '../../parts/format.ts'
import { Note, StateMark } from '../../parts/meaning.tsx'
import { Meter } from '../../parts/states.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { AnswerView } from './answer-view.tsx'
import type { CallPhase } from './call/call-flow.ts'
import type { CallControl } from './call/use-call.ts'
import type { ToolDetails } from './tool-data.ts'

/*
 * The state of a call from sending to its answer, with what a person must do first. `try-panel.tsx` uses it. Only http(s)
 * addresses become links.
 */

/** The state of the call, from sending to its answer. */
export function CallOutcome({ tool, control, onContinue }: OutcomeProps): ReactNode {
  const { phase } = control
  useEffect(() => {
    const said = SAID[phase.at]
    if (said !== '') announce(said)
  }, [phase.at])
  return (
    <div className="result" role="region" aria-label="Result">
      {phase.at === 'idle' && <p className="dim">Run the tool to see its result.</p>}
      {phase.at === 'running' && <Running phase={phase} onStop={control.stop} />}
      {phase.at === 'parked' && <Parked phase={phase} onWithdraw={control.withdraw} />}
      {phase.at === 'resumable' && (
        <Resumable phase={phase} onContinue={onContinue} onWithdraw={control.withdraw} />
      )}
      {phase.at === 'connecting' && <Connecting phase={phase} onStop={control.stop} />}
      {phase.at === 'lost' && <Lost tool={tool} phase={phase} onRetry={control.retry} />}
      {phase.at === 'unresolved' && <Note>{phase.message}</Note>}
      {phase.at === 'answered' && <AnswerView answer={phase.answer} sent={phase.sent} />}
    </div>
  )
}

/** Announced to screen readers; the answer itself is on the page. */
const SAID: Readonly<Record<CallPhase['at'], string>> = {
  idle: '',
  running: 'The call is running.',
  parked: 'The call is waiting for approval.',
  resumable: 'The call is waiting for approval.',
  connecting: 'The call is waiting for access.',
  lost: 'The outcome of the call is unknown.',
  unresolved: '',
  answered: 'The answer has arrived.',
}

interface OutcomeProps {
  readonly tool: ToolDetails
  readonly control: CallControl
  /** Sends the form's input under the id of a waiting call. */
  readonly onContinue: () => void
}

type PhaseOf<At extends CallPhase['at']> = Extract<CallPhase, { readonly at: At }>

function Running({ phase, onStop }: { phase: PhaseOf<'running'>; onStop: () => void }): ReactNode {
  const seconds = useSecondsSince(phase.since)
  const { progress } = phase
  return (
    <div className="stack-3">
      <div className="result-head">
        <StateMark state="running" label={phase.isStopping === true ? 'stopping' : 'running'} />
        <span className="num soft">{seconds > 0 ? `${seconds} s` : ''}</span>
        <span className="grow" />
        <Button
          isSmall
          onClick={onStop}
          off={phase.isStopping === true ? 'It was asked to stop.' : undefined}
        >
          Stop
        </Button>
      </div>
      {progress !== undefined && (
        <div>
          <p className="row">
            <span className="grow clip">{progress.message ?? 'Running'}</span>
            <span className="num soft">
              {progress.done}
              {progress.total !== undefined && ` of ${progress.total}`}
            </span>
          </p>
          {progress.total !== undefined && (
            <Meter label="Progress" value={progress.done} max={progress.total} isRunning />
          )}
        </div>
      )}
      {phase.isStopping === true && <p className="soft">It was asked to stop. Effects so far remain.</p>}
    </div>
  )
}

function Parked({ phase, onWithdraw }: ParkedProps): ReactNode {
  const mayOpen = useSession()?.principal !== null
  const address = `/approvals/${encodeURIComponent(phase.approvalId)}`
  return (
    <div className="stack-3">
      <WaitsHead since={phase.since} onWithdraw={onWithdraw} />
      <Note
        tone="parked"
        action={
          mayOpen ? (
            <Link className="btn sm" to={address} target="_blank">
              Open the approval
            </Link>
          ) : (
            <a
              className="btn sm"
              href={`../approvals/${encodeURIComponent(phase.approvalId)}`}
              target="_blank"
              rel="noreferrer"
            >
              Open the approval
            </a>
          )
        }
      >
        Nothing ran yet. A person must approve this call. Leave this page open: the call continues after the
        decision. The call ID is <code>{phase.callId}</code>.
      </Note>
    </div>
  )
}

interface ParkedProps {
  readonly phase: PhaseOf<'parked'>
  readonly onWithdraw: () => Promise<void>
}

/** The time since which the call waits, and a button to withdraw it. */
function WaitsHead({ since, onWithdraw, children }: WaitsHeadProps): ReactNode {
  return (
    <div className="result-head">
      <StateMark state="parked" label="Waiting for approval" />
      <span className="num soft">since {formatClock(since)}</span>
      {children}
      <span className="grow" />
      <Withdraw onWithdraw={onWithdraw} />
    </div>
  )
}

interface WaitsHeadProps {
  readonly since: PhaseOf<'parked'>['since']
  readonly onWithdraw: () => Promise<void>
  readonly children?: ReactNode
}

/** The page was reloaded, so the input is gone; the server recognises it when it is sent again. */
function Resumable({ phase, onContinue, onWithdraw }: ResumableProps): ReactNode {
  const mayOpen = useSession()?.principal !== null
  return (
    <div className="stack-3">
      <WaitsHead since={phase.since} onWithdraw={onWithdraw}>
        {phase.record !== undefined && mayOpen && (
          <Link className="link" to="/calls/$record" params={{ record: phase.record }}>
            Open the call
          </Link>
        )}
      </WaitsHead>
      <Note
        tone="parked"
        action={
          <Button isSmall writes onClick={onContinue}>
            Continue this call
          </Button>
        }
      >
        {phase.isOtherInput === true && (
          <b>The input above differs from the input of this call. Nothing was changed. </b>
        )}
        You made this call before the page was loaded, and nothing ran yet. Enter the same input above and
        continue: it is sent with the same call ID, <code>{phase.callId}</code>, so it needs no second
        approval.
      </Note>
    </div>
  )
}

interface ResumableProps {
  readonly phase: PhaseOf<'resumable'>
  readonly onContinue: () => void
  readonly onWithdraw: () => Promise<void>
}

function Withdraw({ onWithdraw }: { readonly onWithdraw: () => Promise<void> }): ReactNode {
  const [isAsking, setAsking] = useState(false)
  return (
    <>
      <Button isSmall writes onClick={() => setAsking(true)}>
        Withdraw call…
      </Button>
      <ConfirmDialog
        title="Withdraw this call?"
        verb="Withdraw call"
        keep="Keep waiting"
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        onConfirm={onWithdraw}
      >
        <p>It ends at once without running, and can no longer be approved.</p>
      </ConfirmDialog>
    </>
  )
}

function Connecting({ phase, onStop }: { phase: PhaseOf<'connecting'>; onStop: () => void }): ReactNode {
  return (
    <div className="stack-3">
      <div className="result-head">
        <StateMark state="parked" label="Waiting for access" />
        <span className="grow" />
        <Button isSmall onClick={onStop}>
          Give up
        </Button>
      </div>
      <Note
        tone="parked"
        action={phase.challenges.map(({ id, url, provider }) => (
          <a key={id} className="btn sm" href={safeAddress(url)} target="_blank" rel="noreferrer">
            Connect {provider ?? 'the account'}
          </a>
        ))}
      >
        Nothing ran yet. The tool needs access to an account. Grant it on the page that opens; the call then
        continues.
      </Note>
    </div>
  )
}

/** An http(s) page, never a script. */
function safeAddress(url: string): string | undefined {
  return /^https?:\/\//i.test(url) ? url : undefined
}

function Lost({ tool, phase, onRetry }: LostProps): ReactNode {
  const hasEffects = tool.policy.tier === 'write' || tool.policy.tier === 'exec'
  return (
    <div className="stack-3">
      <div className="result-head">
        <StateMark state="ambiguous" label={lostLabel(phase)} />
        <span className="num soft">at {formatClock(phase.since)}</span>
      </div>
      <Note
        tone="ambiguous"
        action={
          <Button isSmall onClick={onRetry}>
            {phase.isOld ? 'Show result' : 'Retry'}
          </Button>
        }
      >
        {phase.message !== undefined && <b>The outcome could not be read: {visibleText(phase.message)} </b>}
        {phase.isOld ? (
          <>
            You ran this tool before the page was loaded, and its answer was not shown. The call ID is{' '}
            <code>{phase.callId}</code>.
          </>
        ) : (
          <>
            The call may have run. A retry sends the same call ID, <code>{phase.callId}</code>: if it ran, you
            get the recorded answer{hasEffects ? ', so nothing runs twice.' : '.'}
          </>
        )}
      </Note>
    </div>
  )
}

function lostLabel({ isOld, message }: PhaseOf<'lost'>): string {
  if (isOld) return 'Result not shown yet'
  return message === undefined ? 'The connection broke' : 'Outcome unknown'
}

interface LostProps {
  readonly tool: ToolDetails
  readonly phase: PhaseOf<'lost'>
  readonly onRetry: () => void
}

function useSecondsSince(since: Date): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [])
  return Math.max(0, Math.floor((now - since.getTime()) / 1000))
}
