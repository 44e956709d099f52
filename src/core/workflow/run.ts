import { setTimeout as sleep } from 'node:timers/promises'
import type { CallError, CallReply, CallRequest } from '#core/call'
import type { RunContext } from '#core/calls/context'
import type { CallServices } from '#core/calls/gateway'
import { type StepOrigin, stepRecord } from '#core/calls/identity'
import type { RunningCall } from '#core/calls/running'
import { runIdOf } from '#core/calls/scope'
import { type ErrorCode, fault, ToolError } from '#core/errors'
import {
  compareVersions,
  implicitRun,
  LATEST,
  parseToolId,
  parseToolName,
  plainVersion,
  type ToolId,
} from '#core/ids'
import { copyJson, hasControlCharacter, type JsonValue } from '#core/json'
import type { CallAddress } from '#core/ports/store'
import { noteEnded } from '#core/runs/feed'
import type { Tool, WorkflowStep } from '#core/tool'
import type { CallStep, StepOptions, WorkflowContext } from '#core/tools/define'
import { MOST_DEPTH } from './resolve.ts'
import { ambiguousStep, blockedBy, Suspension } from './suspend.ts'

/** More steps than this are a loop that does not end. */
const MOST_STEPS = 1_000

/**
 * One run of a workflow's function, from its beginning: steps that have finished answer with what is recorded, the
 * next one runs. What the function sees of a step is final; while a step waits, its promise does too, and once nothing
 * else moves the whole is put away (rule 31).
 */
export class WorkflowRun {
  readonly #services: CallServices
  readonly #running: RunningCall
  readonly #context: RunContext
  /** How often each step name was used. */
  readonly #uses = new Map<string, number>()
  /** Names of steps that are on their way. */
  readonly #open = new Set<string>()
  readonly #end = Promise.withResolvers<unknown>()
  #steps = 0
  #isOver = false
  /** What its function has ended with. */
  #answered: (() => void) | undefined
  #suspension: Suspension | undefined
  /** Ends the promises of steps that wait, when nobody waits for them any more. */
  readonly #waiting: ((reason: unknown) => void)[] = []

  constructor(services: CallServices, running: RunningCall, context: RunContext) {
    this.#services = services
    this.#running = running
    this.#context = context
  }

  run(input: unknown): Promise<unknown> {
    const { signal } = this.#context
    signal.addEventListener('abort', () => this.#cancel(signal.reason), { once: true })
    const { workflow } = this.#running.tool
    const answer = new Promise((resolve) => resolve(workflow?.run(input, this.#workflowContext())))
    answer.then(
      (value) => this.#finishWhenStill(() => this.#end.resolve(value)),
      (error: unknown) => this.#finishWhenStill(() => this.#end.reject(error)),
    )
    return this.#end.promise
  }

  /** Its function has ended; steps that it did not wait for end first. */
  #finishWhenStill(settle: () => void): void {
    this.#answered = settle
    if (this.#open.size > 0) return
    this.#finish(settle)
    if (this.#suspension !== undefined) this.#endSteps('cancel')
  }

  #workflowContext(): WorkflowContext {
    const { callId, traceId, signal, principal, userId, claimedUserId, userInfo, log } = this.#context
    const call: CallStep = (
      used: { readonly id: string } | string,
      input: unknown,
      options: StepOptions = {},
    ) =>
      // The value is JSON of the step's output schema, which the caller's types were made from.
      this.#call(typeof used === 'string' ? used : used.id, input, options) as Promise<never>
    return {
      callId,
      traceId,
      signal,
      principal,
      userId,
      claimedUserId,
      userInfo,
      log,
      progress: (done, total, message) => this.#context.progress(done, total, message),
      call,
    }
  }

  async #call(used: string, input: unknown, { step: written }: StepOptions): Promise<unknown> {
    const { tool } = this.#running
    const step = findStep(tool, used)
    const name = written === undefined ? step.base : checkStepName(written)
    if (this.#open.has(name)) throw twiceAtOnce(tool.id, name, written !== undefined)
    this.#steps += 1
    if (this.#steps > MOST_STEPS) {
      throw new ToolError(`${tool.name} makes more than ${MOST_STEPS} steps, so it was stopped.`)
    }
    if (this.#isOver || this.#answered !== undefined) throw fault('cancelled', `${tool.name} has ended.`)
    const nth = (this.#uses.get(name) ?? 0) + 1
    this.#uses.set(name, nth)
    this.#open.add(name)
    try {
      const isOver = () => this.#isOver || this.#context.isAborted
      const made = { tool: step, name, nth, input, isOver }
      const end = await makeStep(this.#services, this.#running, { ...made, signal: this.#context.signal })
      if (end.kind === 'value') return end.value
      if (end.kind === 'failed') throw end.error
      if (end.kind === 'diverged') this.#finish(() => this.#end.reject(end.error))
      else this.#suspension ??= end.suspension
    } finally {
      this.#open.delete(name)
      this.#goOnWhenStill()
    }
    return await this.#wait()
  }

  /** Never settles by itself: no code can catch that its workflow is put away. */
  #wait(): Promise<never> {
    return new Promise((_, reject) => {
      if (this.#context.isAborted) reject(this.#context.signal.reason)
      else this.#waiting.push(reject)
    })
  }

  /** Looks once everything that the last step set off had its turn. */
  #goOnWhenStill(): void {
    if (this.#open.size > 0 || this.#isOver) return
    if (this.#answered !== undefined) this.#finishWhenStill(this.#answered)
    if (this.#suspension === undefined) return
    setImmediate(() => {
      const { signal } = this.#context
      if (this.#suspension === undefined || this.#open.size > 0 || this.#isOver || signal.aborted) return
      const suspension = this.#suspension
      this.#finish(() => this.#end.reject(suspension))
    })
  }

  #finish(settle: () => void): void {
    if (this.#isOver) return
    this.#isOver = true
    settle()
  }

  /** Steps end with their workflow; only a shutdown leaves those that wait for another day. */
  #cancel(reason: unknown): void {
    for (const reject of this.#waiting.splice(0)) reject(reason)
    const { interruption } = this.#running
    if (interruption !== undefined && interruption !== 'shutdown') this.#endSteps(interruption)
  }

  #endSteps(why: 'timeout' | 'cancel'): void {
    const { call } = this.#running
    endSteps(this.#services, call, { by: call.principal.id, why }).catch((error: unknown) =>
      this.#services.log.error({ err: error, record: call.record }, 'steps of a workflow were not ended'),
    )
  }
}

function twiceAtOnce(workflow: string, name: string, isNamed: boolean): ToolError {
  const how = isNamed ? `The step name '${name}'` : `'${name}' without a step name`
  return new ToolError(`${workflow} made two steps at once that cannot be told apart.`, {
    developerMessage: `${how} is used twice at the same time. Name each use: call(tool, input, { step: 'send-1' }); the name must be the same each time the workflow runs.`,
  })
}

const LONGEST_NAME = 128

/** A name is part of a key, so it must be something that can be stored and compared exactly. */
function checkStepName(name: unknown): string {
  const isGood =
    typeof name === 'string' &&
    name !== '' &&
    name.length <= LONGEST_NAME &&
    name.isWellFormed() &&
    !hasControlCharacter(name)
  if (isGood) return name
  throw new ToolError('The workflow gave a step a name that cannot be used.', {
    developerMessage: `Write a text of 1 to ${LONGEST_NAME} characters without control characters: { step: 'send-1' }.`,
  })
}

/** How long a step waits for a limit, or between attempts, before its workflow is put away. */
const LONGEST_WAIT_MS = 20_000
const FIRST_WAIT_MS = 100

interface PlannedStep {
  readonly tool: FoundStep
  readonly name: string
  readonly nth: number
  readonly input: unknown
  readonly signal: AbortSignal
  isOver(): boolean
}

type StepEnd =
  | { readonly kind: 'value'; readonly value: JsonValue }
  /** For good: the workflow may catch it. */
  | { readonly kind: 'failed'; readonly error: ToolError }
  | { readonly kind: 'diverged'; readonly error: ToolError }
  | { readonly kind: 'suspended'; readonly suspension: Suspension }

/** One step as a durable call; gives only ends that stay, so that every run of the workflow sees the same (rule 31). */
async function makeStep(
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
      blockedBy(workflow.name, `its step '${step.name}' cannot run now (${error.message}).`, {
        retryAfterMs,
      }),
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
    place: place.place ?? { ...implicitRun(principal, record), tenant, runId: runIdOf(call, place) },
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

/** A tool that a workflow may call, with its names. */
type FoundStep = WorkflowStep & ToolId

/** Only what `uses` lists is called, and exactly as it was when the workflow began (rule 31). */
function findStep({ id, workflow }: Tool, used: unknown): FoundStep {
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

/** Cancel cascades: whatever of a workflow's steps runs or waits is ended too (rule 31). */
export async function endSteps(
  services: CallServices,
  parent: CallAddress,
  ended: { readonly by: string; readonly why: 'timeout' | 'cancel' },
): Promise<void> {
  const { store, running, clock } = services
  for (const step of await store.workflows.openSteps(parent)) {
    const here = running.get(step.record)
    if (here !== undefined) {
      // It ends its own steps.
      here.interrupt(ended.why)
      continue
    }
    const nowMs = clock.nowMs()
    const parked = await store.approvals.cancel(step, ended.by, nowMs)
    const suspend = parked.length > 0 ? parked : await store.workflows.cancel(step, ended.by, nowMs)
    noteEnded(services, suspend)
    if (suspend.length === 0) await store.requestCancel(step, ended.by, nowMs)
    await endSteps(services, step, ended)
  }
}
