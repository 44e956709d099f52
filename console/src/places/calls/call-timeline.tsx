import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { countOf, formatClock, formatDuration } from '../../parts/format.ts'
import type { IconName } from '../../parts/icon.tsx'
import { StateMark, ToolName } from '../../parts/meaning.tsx'
import { Timeline, type TimelineEvent } from '../../parts/timeline.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import {
  type CallDetails,
  type CallRow,
  formatTook,
  type ListedCall,
  runTimeText,
  type StepCall,
} from './api.ts'
import { words } from './words.ts'

/*
 * Builds the timeline of a call from the events of its run and of the journal. Used by several pages. An event that repeats another
 * is left out.
 */

/** The timeline of a call: the events of its run and of the journal, and its steps. */
export function timelineOf(call: CallDetails): readonly TimelineEvent[] {
  const ofRun = call.timeline.flatMap(({ at, event, facts }, index) =>
    describeEvent(event, facts, call).map((words) => ({ key: `r${index}`, at, ...words })),
  )
  const journaled = call.journal.flatMap(({ writer, group, events }) =>
    events
      .filter(({ type }) => FROM_JOURNAL.has(type))
      .flatMap(({ type, at, ...facts }, index) =>
        describeEvent(type, { ...facts, writer }, call).map((words) => ({
          key: `j${group}-${index}`,
          at,
          ...words,
        })),
      ),
  )
  const steps = call.steps.map((step) => ({
    key: step.record,
    at: step.created_at,
    ...stepWords(step, call),
  }))
  return [...ofRun, ...journaled, ...replaysOf(call), ...steps].toSorted(
    (one, other) => timeOf(one) - timeOf(other) || rank(one) - rank(other),
  )
}

/** How long the tool ran, and how long the call waited for people. */
export function timesOf({ took_ms: took, ran_ms: ran, timeline, journal }: CallDetails): string {
  if (took === null) return 'not ended'
  // The call ended when it was settled, so its duration is not that of the tool.
  if (journal.some(({ events }) => events.some(({ type }) => type === 'call.settled')))
    return `settled after ${formatDuration(took)}, run time unknown`
  if (ran === null) return formatTook(took)
  const begun = timeline.find(({ event }) => BEGINS_WAIT.has(event))
  const ended = timeline.find(({ event }) => ENDS_WAIT.has(event))
  if (begun === undefined || ended === undefined) return formatTook(took)
  // The time until the caller repeats an approved call is not waiting for a person.
  return `${formatTook(ran)} run, ${formatDuration(timeOf(ended) - timeOf(begun))} waiting for a decision`
}

/** Events for replays: a workflow starts over after the approval of a step, and its recorded steps return their results. */
function replaysOf({ steps }: CallDetails): readonly TimelineEvent[] {
  return steps.flatMap(({ record, timeline }) => {
    const resolved = timeline.find(({ event, facts }) => ENDS_WAIT.has(event) && facts.action === 'accept')
    const returned = timeline.findLast(({ event }) => event === 'returned')
    if (resolved === undefined || returned === undefined) return []
    const done = steps.filter(
      (step) => step.record !== record && step.finished_at !== null && step.finished_at <= resolved.at,
    )
    if (done.length === 0) return []
    const ranMs = typeof returned.facts.durationMs === 'number' ? returned.facts.durationMs : 0
    return [
      {
        key: `replayed for ${record}`,
        at: timeOf(returned) - ranMs,
        icon: 'replayed',
        title: `${countOf(done.length, 'step')} replayed`,
        detail: 'The workflow continued with the recorded results. Nothing ran again.',
      },
    ]
  })
}

const BEGINS_WAIT: ReadonlySet<string> = new Set(['interrupt.requested', 'consent.requested'])
const ENDS_WAIT: ReadonlySet<string> = new Set(['interrupt.resolved', 'consent.resolved'])

/** A workflow's name for a step: the part of the step's id after the workflow's id. `undefined` if it equals the tool's name. */
export function stepNameOf(
  { call_id: id, tool }: Pick<ListedCall, 'call_id' | 'tool'>,
  { call_id: workflow }: Pick<ListedCall, 'call_id'>,
): string | undefined {
  if (!id.startsWith(`${workflow}/`)) return undefined
  const name = id.slice(workflow.length + 1)
  const [base = ''] = tool.split('@', 1)
  return name === base ? undefined : name.startsWith(`${base}#`) ? name.slice(base.length) : name
}

/** Journal events that are not events of the run. */
const FROM_JOURNAL: ReadonlySet<string> = new Set([
  ...['call.claimed', 'call.ambiguous', 'call.cut', 'call.settled', 'call.late', 'call.cancel_requested'],
  ...['call.corrected', 'call.suspended', 'call.resumed'],
])

interface EventText {
  readonly icon: IconName
  readonly tone?: string
  readonly title: ReactNode
  readonly detail?: ReactNode
}

type Facts = Readonly<Record<string, unknown>>

/** Describes an event; empty for an event that repeats another. */
function describeEvent(event: string, facts: Facts, call: CallDetails): readonly EventText[] {
  const describe = EVENT_TEXTS[event]
  if (describe === undefined) return [{ icon: 'dot', title: <code>{event}</code> }]
  const words = describe(facts, call)
  return words === undefined ? [] : [words]
}

const EVENT_TEXTS: Readonly<Record<string, (facts: Facts, call: CallDetails) => EventText | undefined>> = {
  called: ({ attempt }) => ({
    icon: 'ring',
    title: isFirst(attempt) ? 'Requested' : `Requested again, attempt ${attempt}`,
  }),
  returned: ({ code, durationMs, attempt }, call) => ended(code, durationMs, attempt, call),
  'call.claimed': ({ writer, attempt }) => ({
    icon: 'lock',
    title: 'Claimed',
    detail: `Committed before anything ran, by writer ${short(writer)}${isFirst(attempt) ? '' : `, attempt ${attempt}`}.`,
  }),
  'interrupt.requested': ({ approval, quorum, requiredScope, timeoutMs }) => ({
    ...WAITS,
    title: 'Parked',
    detail: (
      <>
        <p>{`Waiting for ${quorum === 1 ? 'approval' : `${text(quorum)} approvals`} (${text(requiredScope)}), for at most ${formatDuration(Number(timeoutMs))}.`}</p>
        <p>
          <Link className="link" to="/approvals/$id" params={{ id: text(approval) }}>
            Open the approval
          </Link>
        </p>
      </>
    ),
  }),
  'node.suspended': () => undefined,
  'approval.granted': (facts, call) => decided('Approved', named(facts, 'grant', call)),
  'approval.overridden': (facts, call) =>
    decided('Approved without the quorum', named(facts, 'override', call)),
  'approval.rejected': (facts, call) => ({
    ...decided('Rejected', named(facts, 'reject', call)),
    icon: 'rejected',
    tone: 'is-failed',
  }),
  'interrupt.resolved': ({ action, by }) =>
    action === 'accept'
      ? { icon: 'play', title: 'Approved to run' }
      : { icon: 'clock', title: by === undefined ? 'Not decided in time' : 'Cancelled before a decision' },
  'consent.requested': ({ provider }) => ({
    ...WAITS,
    title: 'Waiting for consent',
    detail: `A person must allow it at ${text(provider)}.`,
  }),
  'consent.suspended': () => undefined,
  'consent.resolved': ({ action, reason }) => ({
    icon: action === 'accept' ? 'approvals' : 'rejected',
    title: action === 'accept' ? 'Consent given' : 'Consent refused',
    detail: quote(reason),
  }),
  'connector.authorized': ({ provider }) => ({ icon: 'key', title: `Connected to ${text(provider)}` }),
  'connector.auth_expired': ({ provider }) => ({
    icon: 'clock',
    title: `The access to ${text(provider)} had expired`,
  }),
  'session.opened': () => ({ icon: 'ring', title: 'Session opened' }),
  'session.closed': ({ outcome }) => ({ icon: 'ring', title: 'Session closed', detail: text(outcome) }),
  'call.corrected': () => ({ icon: 'replayed', title: 'Repeated with different input' }),
  'call.suspended': () => ({ ...WAITS, title: 'Suspended', detail: 'One of its steps is waiting.' }),
  'call.resumed': () => ({ icon: 'play', title: 'Continued' }),
  'call.cut': ({ deadWriter }) => ({
    icon: 'offline',
    title: 'Interrupted',
    detail: `Writer ${short(deadWriter)} is gone. The call may run again.`,
  }),
  'call.ambiguous': ({ deadWriter, writer }) => ({
    icon: 'ambiguous',
    tone: 'is-ambiguous',
    title: 'Ambiguous',
    detail: `Writer ${short(deadWriter)} is gone, and no outcome was recorded. Declared by writer ${short(writer)}.`,
  }),
  'call.settled': ({ as, who, why }) => ({
    icon: as === 'succeeded' ? 'succeeded' : as === 'failed' ? 'failed' : 'released',
    tone: as === 'succeeded' ? 'is-succeeded' : as === 'failed' ? 'is-failed' : 'is-quiet',
    title: `Settled as ${text(as)} by ${text(who)}`,
    detail: quote(why),
  }),
  'call.late': () => ({
    icon: 'clock',
    title: 'A result came late',
    detail: 'The outcome was already recorded, and does not change.',
  }),
  'call.cancel_requested': ({ by }) => ({ icon: 'rejected', title: `${text(by)} requested a stop` }),
}

const WAITS = { icon: 'parked', tone: 'is-parked' } as const

function ended(
  code: unknown,
  durationMs: unknown,
  attempt: unknown,
  call: CallDetails,
): EventText | undefined {
  const took = typeof durationMs === 'number' ? ` after ${formatTook(durationMs)}` : ''
  if (code === 'ambiguous') return isJournaled(call, 'call.ambiguous') ? undefined : AMBIGUOUS
  const isLast = attempt === call.attempt
  // A person settled it later, which the journal shows.
  if (isLast && isJournaled(call, 'call.settled')) return undefined
  if (code === undefined)
    return {
      icon: 'succeeded',
      tone: 'is-succeeded',
      title: 'Succeeded',
      detail: 'The outcome was committed before the reply. Repeating the call returns it and runs nothing.',
    }
  if (!isLast || call.state === 'released')
    return {
      icon: 'released',
      title: `Attempt ${text(attempt)} failed${took}`,
      detail: (
        <>
          {isLast ? <Cause code={text(code)} call={call} /> : <code>{text(code)}</code>}
          <p>{words.nothingTookEffect}</p>
        </>
      ),
    }
  return {
    icon: 'failed',
    tone: 'is-failed',
    title: `Failed${took}`,
    detail: <Cause code={text(code)} call={call} />,
  }
}

/** The error code and the message that the caller got. */
function Cause({ code, call }: { readonly code: string; readonly call: CallDetails }): ReactNode {
  const { error_message: message } = call
  return (
    <>
      {message !== null && (
        <p className="cause" dir="auto">
          {visibleText(message)}
        </p>
      )}
      <code>{code}</code>
    </>
  )
}

const AMBIGUOUS: EventText = {
  icon: 'ambiguous',
  tone: 'is-ambiguous',
  title: 'Ambiguous',
  detail: 'The process that ran it is gone, and no outcome was recorded.',
}

function isJournaled({ journal }: CallDetails, type: string): boolean {
  return journal.some(({ events }) => events.some((event) => event.type === type))
}

/** Adds name and reason from the approval, if the person may see it, because events of a run have only opaque ids. */
function named(
  facts: Facts,
  action: 'grant' | 'reject' | 'override',
  { approval }: Pick<CallDetails, 'approval'>,
): Facts {
  const nth = typeof facts.granted === 'number' && action === 'grant' ? facts.granted - 1 : 0
  const found = approval?.decisions.filter((decision) => decision.action === action)[nth]
  return found === undefined ? facts : { ...facts, by: found.by, reason: found.reason ?? undefined }
}

function decided(verb: string, { by, reason, granted, required }: Facts): EventText {
  const count = typeof required === 'number' && required > 1 ? ` (${text(granted)} of ${required})` : ''
  return {
    icon: 'approvals',
    title: `${verb}${isOpaque(by) ? '' : ` by ${text(by)}`}${count}`,
    detail: quote(reason),
  }
}

function stepWords(step: StepCall, call: CallDetails): Omit<TimelineEvent, 'key' | 'at'> {
  const name = stepNameOf(step, call)
  const waits = step.timeline.flatMap(({ at, event, facts }, index) =>
    WAIT_EVENTS.has(event)
      ? describeEvent(event, facts, call).map((words) => ({ key: String(index), at, ...words }))
      : [],
  )
  return {
    icon: step.state === 'succeeded' ? 'succeeded' : step.state === 'released' ? 'released' : step.state,
    tone: step.state === 'succeeded' ? 'is-quiet' : `is-${step.state}`,
    title: (
      <span className="row">
        <Link to="/calls/$record" params={{ record: step.record }} className="clip grow">
          <ToolName name={step.tool} />
          {name !== undefined && <span className="dim"> {visibleText(name)}</span>}
        </Link>
        <span className="num soft">
          {step.took_ms === null ? <StateMark state={step.state} /> : runTimeText(step)}
        </span>
      </span>
    ),
    detail: step.error_message ?? step.error_code ?? undefined,
    children: waits.length > 0 && <Timeline label={`What ${step.tool} waited for`} events={waits} isFlush />,
  }
}

/** Events of a step that are shown on its workflow's page. The step's own page shows all. */
const WAIT_EVENTS: ReadonlySet<string> = new Set([
  ...['interrupt.requested', 'approval.granted', 'approval.overridden', 'approval.rejected'],
  ...['consent.requested', 'consent.resolved'],
])

function isFirst(attempt: unknown): boolean {
  return attempt === undefined || attempt === 1
}

/** Whether an id is one of the opaque ids in the events of a run. */
function isOpaque(principal: unknown): boolean {
  return typeof principal !== 'string' || principal.startsWith('prn_')
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** The beginning of a writer id, which is enough to identify the writer. */
function short(writer: unknown): string {
  return text(writer).slice(0, 8)
}

function quote(words: unknown): ReactNode {
  return typeof words === 'string' && words !== '' ? `“${words}”` : undefined
}

function timeOf({ at }: Pick<TimelineEvent, 'at'>): number {
  return new Date(at).getTime()
}

/** Order within one millisecond: requested, claimed, then the rest. */
function rank({ icon }: TimelineEvent): number {
  return icon === 'ring' ? 0 : icon === 'lock' ? 1 : 2
}

/** For a title: `Call of 12:04:31`. */
export function titleOf({ created_at: at }: CallRow): string {
  return `Call of ${formatClock(at)}`
}
