import { fault, type ToolError } from '#kernel/base/errors'
import type { KernelStore } from '#kernel/store/store'
import type { RunScope } from './call-record.ts'

/**
 * Workflow steps as the ladder sees them: their origin, their record, and the error for a step that changed. Only the workflow
 * stage makes steps; no protocol can.
 */

/** The workflow and the step that a call belongs to. */
export interface StepOrigin {
  /** Name of the workflow, for messages. */
  readonly workflow: string
  readonly parent: string
  /** Record of the outermost call. */
  readonly root: string
  readonly name: string
  /** Counts the uses of this name in the workflow, from 1. */
  readonly nth: number
  /** Number of workflows that the step is nested in. */
  readonly depth: number
  /** The workflow's run, whose events also report the step. */
  readonly run: RunScope
  /** The definition that the workflow's claim pins this tool to. */
  readonly definitionHash: string
  readonly callId: string
  /** True once the workflow has ended; no more steps start then. */
  hasWorkflowEnded(): boolean
}

/** Rule 31: steps have their own key space, which protocols cannot reach because their keys begin differently (OWP-94). */
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
    `${workflow} made another call in its step '${name}'${use} than in its first run, so it was stopped. Finished steps keep their effects: check them before you call it again with a new call id.`,
    {
      developerMessage: `The step is recorded as a call of ${recorded.tool} with another input. A workflow must make the same steps with the same inputs each time: take times, random values and outside facts from steps or from its input.`,
    },
  )
}
