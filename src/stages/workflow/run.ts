import { fault, ToolError } from '#kernel/base/errors'
import { hasControlCharacter } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { Suspension } from '#kernel/call/suspend'
import type { CallStep, StepOptions, WorkflowContext } from '#kernel/tool/define'
import { endSteps, findStep, makeStep, type StepNeeds, type WorkflowCall } from './step.ts'

/**
 * One run of a workflow's function, from its beginning: finished steps return their recorded values, the next step runs (rule 31).
 * The workflow stage starts it for each attempt of a workflow's call.
 * The function gets only final results of steps. While a step waits, its promise stays pending; once nothing else can proceed,
 * the workflow is suspended.
 */

/** A workflow with more steps than this is assumed to be in an endless loop. */
const MAX_STEPS = 1_000

interface WorkflowNeeds extends StepNeeds {
  readonly log: Logger
}

/** The context that the run gives its function; steps are added here. */
type RunContext = Omit<WorkflowContext, 'call'> & { readonly isAborted: boolean }

export class WorkflowRun {
  readonly #needs: WorkflowNeeds
  readonly #running: WorkflowCall
  readonly #context: RunContext
  /** Number of uses of each step name. */
  readonly #uses = new Map<string, number>()
  /** Names of steps that are running or waiting. */
  readonly #open = new Set<string>()
  readonly #end = Promise.withResolvers<unknown>()
  #steps = 0
  #hasEnded = false
  /** Settles the run; set once the workflow's function has ended. */
  #answered: (() => void) | undefined
  #suspension: Suspension | undefined
  /** Functions that reject the promises of waiting steps when the run is aborted. */
  readonly #waiting: ((reason: unknown) => void)[] = []

  constructor(needs: WorkflowNeeds, running: WorkflowCall, context: RunContext) {
    this.#needs = needs
    this.#running = running
    this.#context = context
  }

  run(input: unknown): Promise<unknown> {
    const { signal } = this.#context
    signal.addEventListener('abort', () => this.#cancel(signal.reason), { once: true })
    const { workflow } = this.#running.tool
    const answer = new Promise((resolve) => resolve(workflow?.run(input, this.#workflowContext())))
    answer.then(
      (value) => this.#finishWhenIdle(() => this.#end.resolve(value)),
      (error: unknown) => this.#finishWhenIdle(() => this.#end.reject(error)),
    )
    return this.#end.promise
  }

  /** The function has ended; steps that it did not await end first. */
  #finishWhenIdle(settle: () => void): void {
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
      // The value is JSON of the step's output schema, from which the types of `call` are inferred.
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
      message: (level, data, logger) => this.#context.message(level, data, logger),
      call,
    }
  }

  async #call(used: string, input: unknown, { step: written }: StepOptions): Promise<unknown> {
    const { tool } = this.#running
    const step = findStep(tool, used)
    const name = written === undefined ? step.base : checkStepName(written)
    if (this.#open.has(name)) throw ambiguousStepName(tool.id, name, written !== undefined)
    this.#steps += 1
    if (this.#steps > MAX_STEPS) {
      throw new ToolError(`${tool.name} makes more than ${MAX_STEPS} steps, so it was stopped.`)
    }
    if (this.#hasEnded || this.#answered !== undefined) throw fault('cancelled', `${tool.name} has ended.`)
    const nth = (this.#uses.get(name) ?? 0) + 1
    this.#uses.set(name, nth)
    this.#open.add(name)
    try {
      const hasWorkflowEnded = () => this.#hasEnded || this.#context.isAborted
      const made = { tool: step, name, nth, input, hasWorkflowEnded }
      const end = await makeStep(this.#needs, this.#running, { ...made, signal: this.#context.signal })
      if (end.kind === 'value') return end.value
      if (end.kind === 'failed') throw end.error
      if (end.kind === 'diverged') this.#finish(() => this.#end.reject(end.error))
      else this.#suspension ??= end.suspension
    } finally {
      this.#open.delete(name)
      this.#continueWhenIdle()
    }
    return await this.#wait()
  }

  /** A promise that settles only if the run is aborted, so that a workflow's function cannot catch its own suspension. */
  #wait(): Promise<never> {
    return new Promise((_, reject) => {
      if (this.#context.isAborted) reject(this.#context.signal.reason)
      else this.#waiting.push(reject)
    })
  }

  /** Checks, after all work that the last step triggered has run, whether the workflow has to be suspended. */
  #continueWhenIdle(): void {
    if (this.#open.size > 0 || this.#hasEnded) return
    if (this.#answered !== undefined) this.#finishWhenIdle(this.#answered)
    if (this.#suspension === undefined) return
    setImmediate(() => {
      const { signal } = this.#context
      if (this.#suspension === undefined || this.#open.size > 0 || this.#hasEnded || signal.aborted) return
      const suspension = this.#suspension
      this.#finish(() => this.#end.reject(suspension))
    })
  }

  #finish(settle: () => void): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    settle()
  }

  /** Steps end with their workflow; only a shutdown leaves waiting steps for a later attempt. */
  #cancel(reason: unknown): void {
    for (const reject of this.#waiting.splice(0)) reject(reason)
    const { interruption } = this.#running
    if (interruption !== undefined && interruption !== 'shutdown') this.#endSteps(interruption)
  }

  #endSteps(why: 'timeout' | 'cancel'): void {
    const { call } = this.#running
    endSteps(this.#needs, call, { by: call.principal.id, why }).catch((error: unknown) =>
      this.#needs.log.error(
        { err: error, record: call.record },
        'the steps of a workflow could not be ended',
      ),
    )
  }
}

function ambiguousStepName(workflow: string, name: string, isNamed: boolean): ToolError {
  const how = isNamed ? `The step name '${name}'` : `'${name}' without a step name`
  return new ToolError(`${workflow} made two steps at once that cannot be distinguished.`, {
    developerMessage: `${how} is used twice at the same time. Name each use: call(tool, input, { step: 'send-1' }); the name must be the same each time the workflow runs.`,
  })
}

const MAX_NAME_LENGTH = 128

/** A name is part of a key, so it must be storable and exactly comparable. */
function checkStepName(name: unknown): string {
  const isGood =
    typeof name === 'string' &&
    name !== '' &&
    name.length <= MAX_NAME_LENGTH &&
    name.isWellFormed() &&
    !hasControlCharacter(name)
  if (isGood) return name
  throw new ToolError('The workflow gave a step a name that cannot be used.', {
    developerMessage: `Write a string of 1 to ${MAX_NAME_LENGTH} characters without control characters: { step: 'send-1' }.`,
  })
}
