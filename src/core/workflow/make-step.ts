import { setTimeout as sleep } from 'node:timers/promises'
import { runIdOf } from '#core/call/call-place'
import type { CallReply, CallRequest } from '#core/call/call-request'
import type { CallServices } from '#core/call/call-services'
import type { RunningCall } from '#core/call/running-calls'
import { copyJson } from '#core/copy-json'
import { type ErrorCode, fault, ToolError } from '#core/errors'
import type { JsonValue } from '#core/json'
import type { CallError } from '#core/outcome'
import { ownPlace } from '#core/runs/run-id'
import { plainVersion } from '#core/tool-id'
import type { FoundStep } from './find-step.ts'
import { MOST_DEPTH } from './resolve-workflows.ts'
import { type StepOrigin, stepRecord } from './step-origin.ts'
import { ambiguousStep, heldUp, Suspension } from './suspension.ts'

/** How long a step waits for a limit, or between attempts, before its workflow is put away. */
const LONGEST_WAIT_MS = 20_000
const FIRST_WAIT_MS = 100

export interface PlannedStep {
  readonly tool: FoundStep
  readonly name: string
  readonly nth: number
  readonly input: unknown
  readonly signal: AbortSignal
  isOver(): boolean
}

export type StepEnd =
  | { readonly kind: 'value'; readonly value: JsonValue }
  /** For good: the workflow may catch it. */
  | { readonly kind: 'failed'; readonly error: ToolError }
  | { readonly kind: 'diverged'; readonly error: ToolError }
  | { readonly kind: 'suspended'; readonly suspension: Suspension }

/** One step as a durable call; gives only ends that stay, so that every run of the workflow sees the same (rule 31). */
export async function makeStep(
  services: CallServices,
  running: RunningCall,
  planned: PlannedStep,
): Promise<StepEnd> {
  const step = originOf(running, planned)
  if (step.depth > MOST_DEPTH) throw new ToolError(`Workflows are nested more than ${MOST_DEPTH} deep.`)
  const request = requestOf(running, planned)
  let waitedMs = 0
  for (let round = 0; ; round += 1) {
    const reply = await services.callStep(running.call.principal, request, step)
    if (reply.outcome.ok) return { kind: 'value', value: JSON.parse(reply.outcome.valueJson) }
    const { error } = reply.outcome
    const waitMs = error.retryAfterMs ?? FIRST_WAIT_MS * 2 ** Math.min(round, 6)
    const mayTry = (error.canRetry || isLimit(error)) && waitedMs + waitMs <= LONGEST_WAIT_MS
    if (!mayTry || planned.isOver())
      return endOf(services, running, { step, reply, error, tool: planned.tool.id })
    waitedMs += waitMs
    await sleep(waitMs, undefined, { signal: planned.signal }).catch(() => undefined)
  }
}

function isLimit({ code, details }: CallError): boolean {
  return (code === 'rate_limited' || code === 'overloaded') && details?.scope !== undefined
}

/** Refusals that say nothing about the step itself: another day it may run. */
const PASSING: ReadonlySet<ErrorCode> = new Set([
  'rate_limited',
  'budget_exceeded',
  'overloaded',
  'not_ready',
  'key_conflict',
  'internal',
])

interface EndedStep {
  readonly step: StepOrigin
  readonly tool: string
  readonly reply: CallReply
  readonly error: CallError
}

function endOf(services: CallServices, { tool: workflow }: RunningCall, ended: EndedStep): StepEnd {
  const { step, tool, reply, error } = ended
  const record = stepRecord(services.store, step)
  const put = (told: ToolError, waitsFor = ''): StepEnd => ({
    kind: 'suspended',
    suspension: new Suspension(told, waitsFor),
  })
  if (error.code === 'workflow_diverged') return { kind: 'diverged', error: toolErrorOf(error) }
  if (error.code === 'approval_required') return put(toolErrorOf(error), record)
  if (error.code === 'requirement_missing') return put(toolErrorOf(error))
  if (error.code === 'ambiguous') {
    // An inner workflow tells of its own step already.
    return put(reply.replayed ? ambiguousStep(workflow.name, { tool, record }) : toolErrorOf(error), record)
  }
  const isUncommitted = error.code === 'outcome_unknown' && !reply.replayed
  // `canRetry`: its author says that nothing took effect, and it has attempts left (rule 9).
  if (isUncommitted || error.canRetry || PASSING.has(error.code)) {
    const { retryAfterMs } = error
    return put(
      heldUp(workflow.name, `its step '${step.name}' cannot run now (${error.message}).`, { retryAfterMs }),
      isUncommitted ? record : '',
    )
  }
  return { kind: 'failed', error: failureOf(ended) }
}

/** What the workflow's own function catches. */
function failureOf({ step, tool, error }: EndedStep): ToolError {
  const { developerMessage: said, ...rest } = error
  const where = `Step '${step.name}' (${tool}) of ${step.workflow} ended with ${error.code}.`
  return toolErrorOf({ ...rest, developerMessage: said === undefined ? where : `${where} ${said}` })
}

function toolErrorOf(error: CallError): ToolError {
  const { code, message, canRetry: _never, effect: _told, shown: _ofTheStep, details = {}, ...rest } = error
  return fault(code, message, { ...rest, ...details })
}

function originOf({ call, tool, place }: RunningCall, planned: PlannedStep): StepOrigin {
  const { name, nth } = planned
  const { tenant, principal, record } = call
  return {
    workflow: tool.id,
    parent: record,
    root: call.step?.root ?? record,
    name,
    nth,
    depth: (call.step?.depth ?? 0) + 1,
    place: place.place ?? { ...ownPlace(principal, record), tenant, runId: runIdOf(call, place) },
    definitionHash: planned.tool.definitionHash,
    callId: `${call.callId}/${name}${nth === 1 ? '' : `#${nth}`}`,
    isOver: () => planned.isOver(),
  }
}

/** The same caller with what it sent: each step takes what it declares. */
function requestOf({ call: { request } }: RunningCall, { tool, input }: PlannedStep): CallRequest {
  const copied = copyJson(input ?? {})
  if (!copied.ok) {
    throw new ToolError('The workflow gave a step an input that is not JSON.', {
      developerMessage: `${copied.pointer === '' ? 'The input' : copied.pointer}: ${copied.problem}`,
    })
  }
  const { traceId, traceparent, protocol, userId, userInfo, tokens, secrets, onElicit } = request
  return {
    tool: { base: tool.base, version: plainVersion(tool.version) },
    input: copied.value,
    key: undefined,
    traceId,
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(protocol === undefined ? {} : { protocol }),
    userId,
    ...(userInfo === undefined ? {} : { userInfo }),
    tokens,
    secrets,
    ...(onElicit === undefined ? {} : { onElicit }),
  }
}
