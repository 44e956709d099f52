import { fault, type ToolError } from '#kernel/base/errors'
import type { KernelStore } from '#kernel/store/store'
import type { RunScope } from './call-record.ts'

/**
 * Steps of workflows as the ladder sees them: their origin, their record, and the error of a step that changed. The workflow
 * stage makes steps. Only the server makes them: no protocol can.
 */

/** The workflow and the step that a call belongs to. */
export interface StepOrigin {
  /** Name of the workflow, for texts. */
  readonly workflow: string
  readonly parent: string
  /** Record of the outermost call. */
  readonly root: string
  readonly name: string
  /** Which use of that name, from 1. */
  readonly nth: number
  /** Number of workflows it is nested in. */
  readonly depth: number
  /** The run of the workflow, which reports the step too. */
  readonly run: RunScope
  /** The definition that the workflow's claim pins this tool to. */
  readonly definitionHash: string
  readonly callId: string
  /** True once the workflow has ended: then nothing more starts. */
  hasWorkflowEnded(): boolean
}

/** Rule 31: a keyspace that protocols cannot reach, because their keys begin differently (OWP-94). */
export function stepRecord(
  store: Pick<KernelStore, 'digest'>,
  { parent, name, nth }: Pick<StepOrigin, 'parent' | 'name' | 'nth'>,
): string {
  return store.digest(JSON.stringify(['step', parent, name, nth]))
}

/** Rule 31: the call recorded for this step is not the one that the workflow makes now. */
export function workflowDiverged(
  { workflow, name, nth }: StepOrigin,
  recorded: { readonly tool: string },
): ToolError {
  const use = nth === 1 ? '' : ` (use ${nth})`
  return fault(
    'workflow_diverged',
    `${workflow} asked for something else in its step '${name}'${use} than when it first ran, so it was stopped. Finished steps keep their effects: check them before you call it again with a new call id.`,
    {
      developerMessage: `The step is recorded as a call of ${recorded.tool} with another input. A workflow must make the same steps with the same inputs each time: take times, random values and outside facts from steps or from its input.`,
    },
  )
}
