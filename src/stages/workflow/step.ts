import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '#kernel/base/clock'
import { type ErrorCode, fault, StoreError, ToolError } from '#kernel/base/errors'
import {
  compareVersions,
  LATEST,
  parseToolId,
  parseToolName,
  plainVersion,
  runIdOf,
  type ToolId,
} from '#kernel/base/ids'
import { copyJson, defined, type JsonValue } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { CallError, CallReply, CallRequest } from '#kernel/call/call'
import type { CallAddress } from '#kernel/call/call-record'
import type { IdentifiedCall } from '#kernel/call/look-up'
import type { CallScope } from '#kernel/call/resolve'
import type { Interruption } from '#kernel/call/running'
import { type StepOrigin, stepRecord } from '#kernel/call/step-origin'
import { ambiguousStep, blockedBy, cancelElsewhere, Suspension } from '#kernel/call/suspend'
import { type Followers, implicitRun } from '#kernel/run/runs'
import type { Tool, WorkflowStep } from '#kernel/tool/tool'
import { MAX_DEPTH } from '#kernel/tool/workflows'
import type { Store } from '#store/collet-store'

/**
 * One step of a workflow as a durable call: its key, its request, its retries and its end (rule 31). `run.ts` makes steps;
 * cancelling a workflow ends them.
 * A step returns only final results, so that every run of the workflow gets the same results.
 */

/** The parts of a workflow's call that its steps use. */
export interface WorkflowCall {
  readonly tool: Tool
  readonly call: Pick<IdentifiedCall, 'tenant' | 'record' | 'principal' | 'callId' | 'request' | 'step'>
  readonly scope: Pick<CallScope, 'run'>
  readonly interruption: Interruption | undefined
}

interface EndStepsNeeds extends Followers {
  readonly store: Store
  readonly clock: Clock
  /** The calls that this process is running, keyed by record id. */
  readonly running: { get(record: string): { interrupt(why: 'timeout' | 'cancel'): void } | undefined }
}

export interface StepNeeds extends EndStepsNeeds {
  /** Makes one workflow step: an ordinary call, under a key that no caller can have. */
  callStep(principal: Principal, request: CallRequest, step: StepOrigin): Promise<CallReply>
}

/** How long a step waits for a limit, or between attempts, before its workflow is suspended. */
const MAX_WAIT_MS = 20_000
const FIRST_WAIT_MS = 100

interface PlannedStep {
  readonly tool: FoundStep
  readonly name: string
  readonly nth: number
  readonly input: unknown
  readonly signal: AbortSignal
  hasWorkflowEnded(): boolean
}

type StepResult =
  | { readonly kind: 'value'; readonly value: JsonValue }
  /** The step failed for good; the workflow may catch the error. */
  | { readonly kind: 'failed'; readonly error: ToolError }
  | { readonly kind: 'diverged'; readonly error: ToolError }
  | { readonly kind: 'suspended'; readonly suspension: Suspension }

export async function makeStep(
  needs: StepNeeds,
  running: WorkflowCall,
  planned: PlannedStep,
): Promise<StepResult> {
  const step = originOf(running, planned)
  if (step.depth > MAX_DEPTH) throw new ToolError(`Workflows are nested more than ${MAX_DEPTH} deep.`)
  const request = requestOf(running, planned)
  let waitedMs = 0
  for (let round = 0; ; round += 1) {
    const reply = await needs.callStep(running.call.principal, request, step)
    if (reply.outcome.ok) return { kind: 'value', value: JSON.parse(reply.outcome.valueJson) }
    const { error } = reply.outcome
    const waitMs = error.retryAfterMs ?? FIRST_WAIT_MS * 2 ** Math.min(round, 6)
    const shouldRetry = (error.canRetry || isLimit(error)) && waitedMs + waitMs <= MAX_WAIT_MS
    if (!shouldRetry || planned.hasWorkflowEnded())
      return await toStepResult(needs, running, { step, reply, error, tool: planned.tool.id })
    waitedMs += waitMs
    await sleep(waitMs, undefined, { signal: planned.signal }).catch(() => undefined)
  }
}

function isLimit({ code, details }: CallError): boolean {
  return (code === 'rate_limited' || code === 'overloaded') && details?.scope !== undefined
}

/** Errors that are not caused by the step itself, so the step can be tried again later. */
const TEMPORARY: ReadonlySet<ErrorCode> = new Set([
  'rate_limited',
  'budget_exceeded',
  'overloaded',
  'not_ready',
  'key_conflict',
  'internal',
])

interface FailedReply {
  readonly step: StepOrigin
  readonly tool: string
  readonly reply: CallReply
  readonly error: CallError
}

async function toStepResult(
  needs: StepNeeds,
  { tool: workflow, call: { principal } }: WorkflowCall,
  ended: FailedReply,
): Promise<StepResult> {
  const { step, tool, reply, error } = ended
  const record = stepRecord(needs.store, step)
  const suspend = (error: ToolError, waitsFor = ''): StepResult => ({
    kind: 'suspended',
    suspension: new Suspension(error, waitsFor),
  })
  if (error.code === 'workflow_diverged') return { kind: 'diverged', error: toolErrorOf(error) }
  if (error.code === 'approval_required') return suspend(toolErrorOf(error), record)
  if (error.code === 'requirement_missing') return suspend(toolErrorOf(error))
  if (error.code === 'ambiguous') {
    // If the reply is not replayed, the step is itself a workflow, and its error already names the ambiguous inner step.
    return suspend(
      reply.replayed ? ambiguousStep(workflow.name, { tool, record }) : toolErrorOf(error),
      record,
    )
  }
  const address = { tenant: principal.tenant, record }
  const isUncommitted = error.code === 'outcome_unknown' && !(await isSettledWithoutValue(needs, address))
  // `canRetry` means that the tool states that nothing took effect, and that attempts are left (rule 9).
  if (isUncommitted || error.canRetry || TEMPORARY.has(error.code)) {
    const { retryAfterMs } = error
    const why = `its step '${step.name}' cannot run now (${error.message}).`
    return suspend(blockedBy(workflow.name, why, retryAfterMs), isUncommitted ? record : '')
  }
  return { kind: 'failed', error: failureOf(ended) }
}

/**
 * True if `outcome_unknown` is the step's final outcome: an operator settled the step without knowing its value (rule 12). It is
 * not final while the real outcome still waits for the store (rule 11).
 */
async function isSettledWithoutValue({ store }: StepNeeds, address: CallAddress): Promise<boolean> {
  try {
    const found = await store.find(address)
    // If there is a value, it has just been stored, and the next run of the workflow gets it.
    return found?.state === 'succeeded' && found.outcome === undefined
  } catch (error) {
    if (error instanceof StoreError) return false
    throw error
  }
}

/** The error that the workflow's function catches. */
function failureOf({ step, tool, error }: FailedReply): ToolError {
  const { developerMessage: detail, ...rest } = error
  const where = `Step '${step.name}' (${tool}) of ${step.workflow} ended with ${error.code}.`
  return toolErrorOf({ ...rest, developerMessage: detail === undefined ? where : `${where} ${detail}` })
}

/** The error without the facts that hold only for the step's own call: its retry, its effect and its shown content. */
function toolErrorOf(error: CallError): ToolError {
  const { code, message, canRetry: _canRetry, effect: _effect, shown: _shown, details = {}, ...rest } = error
  return fault(code, message, { ...rest, ...details })
}

function originOf({ call, tool, scope }: WorkflowCall, planned: PlannedStep): StepOrigin {
  const { name, nth } = planned
  const { tenant, principal, record } = call
  return {
    workflow: tool.id,
    parent: record,
    root: call.step?.root ?? record,
    name,
    nth,
    depth: (call.step?.depth ?? 0) + 1,
    run: scope.run ?? { ...implicitRun(principal, record), tenant, runId: runIdOf(call, scope) },
    definitionHash: planned.tool.definitionHash,
    callId: `${call.callId}/${name}${nth === 1 ? '' : `#${nth}`}`,
    hasWorkflowEnded: () => planned.hasWorkflowEnded(),
  }
}

/** The step's request, with the credentials of the workflow's caller; each step gets only the credentials that it declares. */
function requestOf({ call: { request } }: WorkflowCall, { tool, input }: PlannedStep): CallRequest {
  const copied = copyJson(input ?? {})
  if (!copied.ok) {
    throw new ToolError('The workflow gave a step an input that is not JSON.', {
      developerMessage: `${copied.pointer === '' ? 'The input' : copied.pointer}: ${copied.problem}`,
    })
  }
  const { traceId, traceparent, traceExtras, protocol, userId, userInfo, tokens, secrets, onElicit } = request
  return {
    tool: { base: tool.base, version: plainVersion(tool.version) },
    input: copied.value,
    key: undefined,
    traceId,
    userId,
    tokens,
    secrets,
    ...defined({ traceparent, traceExtras, protocol, userInfo, onElicit }),
  }
}

type FoundStep = WorkflowStep & ToolId

/**
 * Finds the tool that a workflow asked for among its `uses`, as they were when the workflow began (rule 31). Throws if it is not
 * listed.
 */
export function findStep({ id, workflow }: Tool, used: unknown): FoundStep {
  const known = [...(workflow?.steps?.values() ?? [])].flatMap((step) => {
    const parts = parseToolId(step.id)
    return parts === undefined ? [] : [{ ...step, ...parts }]
  })
  const ref = typeof used === 'string' ? parseToolName(used) : undefined
  const versions = known
    .filter(({ names }) => ref !== undefined && names.includes(ref.base))
    .filter(({ version }) => ref?.version === LATEST || plainVersion(version) === ref?.version)
    .sort((left, right) => compareVersions(left.version, right.version))
  const found = versions.at(-1)
  if (found !== undefined) return found
  throw new ToolError(`${id} called a tool that it does not list.`, {
    developerMessage: `'${String(used)}' is not in its \`uses\`: ${known.map((step) => step.id).join(', ')}.`,
  })
}

/** Cancellation cascades: running and waiting steps of a workflow are ended too (rule 31). */
export async function endSteps(
  needs: EndStepsNeeds,
  parent: CallAddress,
  ended: { readonly by: string; readonly why: 'timeout' | 'cancel' },
): Promise<void> {
  const { workflows } = needs.store
  for (const step of await workflows.openSteps(parent)) {
    const here = needs.running.get(step.record)
    if (here !== undefined) {
      // An inner workflow ends its own steps.
      here.interrupt(ended.why)
      continue
    }
    await cancelElsewhere(needs, workflows, { address: step, by: ended.by })
    await endSteps(needs, step, ended)
  }
}
