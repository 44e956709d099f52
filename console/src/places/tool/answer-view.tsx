import { Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { useSession } from '../../api/session.ts'
import { Code, toJson } from '../../parts/code.tsx'
import { formatDuration, shortHash } from '../../parts/format.ts'
import { Note, StateMark, type StateName, type TierName } from '../../parts/meaning.tsx'
import { Segment } from '../../parts/tabs.tsx'
import { ContentBlocks, contentOf } from '../../parts/values/content-blocks.tsx'
import { visibleJson, visibleText } from '../../parts/visible-text.ts'
import { type Answer, runMsIn, type SentCall } from './call/call-wire.ts'
import { otcBody, testOf } from './snippets.ts'
import { isRecord } from './tool-data.ts'
import { WORDS } from './words.tsx'

/*
 * The answer to a call, with its times and its HTTP exchange. `call-outcome.tsx` uses it. The shown request has a placeholder
 * for the key.
 */

const VIEWS = [
  { value: 'result', label: WORDS.result },
  { value: 'request', label: WORDS.request },
  { value: 'headers', label: WORDS.headers },
  { value: 'test', label: WORDS.test },
] as const
type View = (typeof VIEWS)[number]['value']

/** The answer: outcome, times and value, and the HTTP exchange for authors of clients. */
export function AnswerView({ answer, sent }: AnswerProps): ReactNode {
  const [view, setView] = useState<View>('result')
  const outcome = outcomeOf(answer, sent?.tool.policy.tier)
  const seesCalls = useSession()?.principal !== null
  const test = sent === undefined ? undefined : testFor(sent, answer, outcome)
  const views = VIEWS.filter(({ value }) => value !== 'test' || test !== undefined)
  return (
    <>
      <div className="result-head">
        <StateMark state={outcome.state} label={outcome.word} />
        <span className="num soft">{formatDuration(answer.tookMs)}</span>
        {answer.record !== undefined &&
          (seesCalls ? (
            <Link className="link mono clip" to="/calls/$record" params={{ record: answer.record }}>
              {shortHash(answer.record)}
            </Link>
          ) : (
            <code className="dim clip" title={answer.record}>
              {shortHash(answer.record)}
            </code>
          ))}
        <span className="grow" />
        {sent !== undefined && (
          <Segment label={WORDS.viewAnswer} value={view} options={views} onChange={setView} />
        )}
      </div>
      {answer.isReplayed && (
        <Note icon="replayed">{WORDS.callWasAlreadyRecordedSo(<b>{WORDS.replayed}</b>)}</Note>
      )}
      <Timing answer={answer} />
      {view === 'result' && <Result answer={answer} outcome={outcome} />}
      {view === 'request' && sent !== undefined && <Request answer={answer} sent={sent} />}
      {view === 'headers' && <Headers answer={answer} />}
      {view === 'test' && test !== undefined && <Code className="out" text={test} label={WORDS.callAsTest} />}
    </>
  )
}

interface AnswerProps {
  readonly answer: Answer
  /** `undefined` for a call that was looked up: its request is not known. */
  readonly sent: SentCall | undefined
}

interface Outcome {
  readonly isGood: boolean
  readonly state: StateName
  readonly word: string
  readonly value?: unknown
  /** The message for the person and the model. */
  readonly message?: string
  readonly developerMessage?: string
  /** What to do about it. */
  readonly advice?: string
}

function outcomeOf({ status, body, text, isStopped = false }: Answer, tier?: TierName): Outcome {
  const result = isRecord(body) && isRecord(body.result) ? body.result : undefined
  if (result?.success === true)
    return { isGood: true, state: 'succeeded', word: WORDS.succeeded, value: result.value }
  const error = isRecord(result?.error) ? result.error : isRecord(body) ? body : {}
  if (isStopped && result !== undefined)
    return { isGood: false, state: 'skipped', word: WORDS.cancelled, advice: stoppedAdvice(tier) }
  return {
    isGood: false,
    state: 'failed',
    word: result === undefined ? WORDS.refused : WORDS.failed,
    message: textIn(error.message) ?? (text === '' ? WORDS.serverAnswered(status) : text),
    ...(textIn(error.developer_message) === undefined
      ? {}
      : { developerMessage: textIn(error.developer_message) ?? '' }),
    advice: adviceFor(status, error, result === undefined ? {} : { hasResult: true, tier }),
  }
}

/** For a tool in the config's own code, once it has answered or rejected its input. */
function testFor({ tool, ...call }: SentCall, { status }: Answer, outcome: Outcome): string | undefined {
  if (tool.source !== null) return undefined
  if (outcome.isGood) return testOf(tool, call, { isGood: true, value: outcome.value })
  return status === 200 || status === 422
    ? testOf(tool, call, { isGood: false, message: outcome.message ?? '' })
    : undefined
}

function textIn(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** The next step, if the message does not name it. */
export function adviceFor(
  status: number,
  error: Readonly<Record<string, unknown>>,
  { hasResult = false, tier }: { readonly hasResult?: boolean; readonly tier?: TierName | undefined },
): string {
  if (hasResult && status !== 422 && status !== 401) {
    if (error.can_retry === true) return WORDS.nothingTookEffectCallMay
    return mayChange(tier) ? WORDS.toolMayHaveRunCheck : ''
  }
  const isSaid = /\bNothing (was run|ran)\b/.test(textIn(error.message) ?? '')
  return [isSaid ? '' : WORDS.nothingRan, nextFor(status, error)].filter((part) => part !== '').join(' ')
}

/** A call of an unknown tool is treated as one that changes something. */
function mayChange(tier: TierName | undefined): boolean {
  return tier !== 'pure' && tier !== 'read'
}

function stoppedAdvice(tier: TierName | undefined): string {
  return mayChange(tier) ? WORDS.youStoppedThisCallEffects : WORDS.youStoppedThisCall
}

function nextFor(status: number, error: Readonly<Record<string, unknown>>): string {
  if (status === 422) return WORDS.invalidFieldsAreMarkedIn
  if (status === 401) return WORDS.signInAgain
  const missing = isRecord(error.missing_requirements) ? error.missing_requirements : {}
  if (missing.secrets !== undefined || missing.authorization !== undefined) return WORDS.seeRequirements
  return missing.user_id === undefined ? '' : WORDS.fillInUserId
}

function Result({ answer, outcome }: { readonly answer: Answer; readonly outcome: Outcome }): ReactNode {
  if (!outcome.isGood)
    return (
      <div className="stack-3">
        {outcome.message !== undefined && (
          <Note tone="failed">
            <b className="said">{visibleText(outcome.message)}</b>
          </Note>
        )}
        {outcome.advice !== '' && <p className="soft">{outcome.advice}</p>}
        {outcome.developerMessage !== undefined && (
          <Code text={outcome.developerMessage} label={WORDS.forDevelopers} />
        )}
        {answer.body !== undefined && <Code text={visibleJson(answer.body)} label={WORDS.answer} isJson />}
      </div>
    )
  const blocks = contentOf(outcome.value)
  const isUntrusted = answer.headers.some(
    ([name, value]) => name === 'collet-content-trust' && value === 'untrusted',
  )
  return (
    <>
      {isUntrusted && <p className="meta dim">{WORDS.untrustedContentFromExternalServer}</p>}
      {blocks !== undefined && <ContentBlocks blocks={blocks} />}
      <Code className="out" text={visibleJson(outcome.value)} label={WORDS.output} isJson />
    </>
  )
}

/** Time in the tool, and overhead: network, checks and recording. Waiting for a person is shown separately. */
function Timing({ answer }: { readonly answer: Answer }): ReactNode {
  const runMs = runMsIn(answer.body)
  if (runMs === undefined || answer.isReplayed) return null
  const total = Math.max(answer.tookMs, runMs, 0.001)
  const part = Math.max(0.5, (runMs / total) * 100)
  const rest = Math.max(0, total - runMs)
  return (
    <figure className="timing">
      <svg
        role="img"
        aria-label={WORDS.timeInTool(formatDuration(runMs), formatDuration(total))}
        viewBox="0 0 100 6"
        preserveAspectRatio="none"
      >
        <rect width={part} height="6" rx="0.2" className="t2" />
        <rect x={part + 0.4} width={Math.max(0, 99.6 - part)} height="6" rx="0.2" className="t1" />
      </svg>
      <figcaption className="num">
        <span>{WORDS.run(formatDuration(runMs))}</span>
        <span>{WORDS.overhead(formatDuration(rest))}</span>
        {answer.waitedMs !== undefined && (
          <span>{WORDS.waitedForApproval(formatDuration(answer.waitedMs))}</span>
        )}
      </figcaption>
    </figure>
  )
}

/** The request as sent, with a placeholder for the key instead of the browser's session. */
function Request({ answer, sent }: { readonly answer: Answer; readonly sent: SentCall }): ReactNode {
  const session = useSession()
  const lines = [
    WORDS.postToolsCallHttp1,
    `host: ${new URL(session?.server.url ?? location.origin).host}`,
    'accept: application/json',
    'content-type: application/json',
    ...(session?.server.isOpen === false ? ['authorization: Bearer <your API key>'] : []),
    '',
    toJson(otcBody({ ...sent, callId: answer.callId })),
  ]
  return <Code className="out" text={lines.join('\n')} label={WORDS.request} />
}

function Headers({ answer }: { readonly answer: Answer }): ReactNode {
  const lines = answer.headers.map(([name, value]) => `${name}: ${value}`)
  return (
    <Code
      className="out"
      text={[WORDS.http11(answer.status), ...lines].join('\n')}
      label={WORDS.headersAnswer}
    />
  )
}
