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
import { WORDS } from './words.tsx'

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
    <div className="result" role="region" aria-label={WORDS.result}>
      {phase.at === 'idle' && <p className="dim">{WORDS.runToolSeeItsResult}</p>}
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
  running: WORDS.callRunning,
  parked: WORDS.callWaitingForApproval,
  resumable: WORDS.callWaitingForApproval,
  connecting: WORDS.callWaitingForAccess,
  lost: WORDS.outcomeCallUnknown,
  unresolved: '',
  answered: WORDS.answerHasArrived,
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
        <StateMark state="running" label={phase.isStopping === true ? WORDS.stopping : WORDS.running} />
        <span className="num soft">{seconds > 0 ? `${seconds} s` : ''}</span>
        <span className="grow" />
        <Button isSmall onClick={onStop} off={phase.isStopping === true ? WORDS.wasAskedStop : undefined}>
          {WORDS.stop}
        </Button>
      </div>
      {progress !== undefined && (
        <div>
          <p className="row">
            <span className="grow clip">{progress.message ?? WORDS.running2}</span>
            <span className="num soft">
              {progress.done}
              {progress.total !== undefined && ` of ${progress.total}`}
            </span>
          </p>
          {progress.total !== undefined && (
            <Meter label={WORDS.progress} value={progress.done} max={progress.total} isRunning />
          )}
        </div>
      )}
      {phase.isStopping === true && <p className="soft">{WORDS.wasAskedStopEffectsSo}</p>}
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
              {WORDS.openApproval}
            </Link>
          ) : (
            <a
              className="btn sm"
              href={`../approvals/${encodeURIComponent(phase.approvalId)}`}
              target="_blank"
              rel="noreferrer"
            >
              {WORDS.openApproval}
            </a>
          )
        }
      >
        {WORDS.nothingRanYetPersonMust(<code>{phase.callId}</code>)}
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
      <StateMark state="parked" label={WORDS.waitingForApproval} />
      <span className="num soft">{WORDS.since(formatClock(since))}</span>
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
            {WORDS.openCall}
          </Link>
        )}
      </WaitsHead>
      <Note
        tone="parked"
        action={
          <Button isSmall writes onClick={onContinue}>
            {WORDS.continueThisCall}
          </Button>
        }
      >
        {phase.isOtherInput === true && <b>{WORDS.inputAboveDiffersFromInput} </b>}
        {WORDS.youMadeThisCallBefore(<code>{phase.callId}</code>)}
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
        {WORDS.withdrawCall}
      </Button>
      <ConfirmDialog
        title={WORDS.withdrawThisCall}
        verb={WORDS.withdrawCall2}
        keep={WORDS.keepWaiting}
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        onConfirm={onWithdraw}
      >
        <p>{WORDS.endsAtOnceWithoutRunning}</p>
      </ConfirmDialog>
    </>
  )
}

function Connecting({ phase, onStop }: { phase: PhaseOf<'connecting'>; onStop: () => void }): ReactNode {
  return (
    <div className="stack-3">
      <div className="result-head">
        <StateMark state="parked" label={WORDS.waitingForAccess} />
        <span className="grow" />
        <Button isSmall onClick={onStop}>
          {WORDS.giveUp}
        </Button>
      </div>
      <Note
        tone="parked"
        action={phase.challenges.map(({ id, url, provider }) => (
          <a key={id} className="btn sm" href={safeAddress(url)} target="_blank" rel="noreferrer">
            {WORDS.connect} {provider ?? WORDS.account}
          </a>
        ))}
      >
        {WORDS.nothingRanYetToolNeeds}
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
        <span className="num soft">{WORDS.at(formatClock(phase.since))}</span>
      </div>
      <Note
        tone="ambiguous"
        action={
          <Button isSmall onClick={onRetry}>
            {phase.isOld ? WORDS.showResult : WORDS.retry}
          </Button>
        }
      >
        {phase.message !== undefined && <b>{WORDS.outcomeCouldNotBeRead(visibleText(phase.message))}</b>}
        {phase.isOld
          ? WORDS.youRanThisToolBefore(<code>{phase.callId}</code>)
          : WORDS.callMayHaveRunRetry(
              <code>{phase.callId}</code>,
              hasEffects ? WORDS.soNothingRunsTwice : '.',
            )}
      </Note>
    </div>
  )
}

function lostLabel({ isOld, message }: PhaseOf<'lost'>): string {
  if (isOld) return WORDS.resultNotShownYet
  return message === undefined ? WORDS.connectionBroke : WORDS.outcomeUnknown
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
