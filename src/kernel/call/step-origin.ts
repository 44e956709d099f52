import { fault, type ToolError } from '#kernel/base/errors'
import type { KernelStore, RunScope } from '#kernel/ports/store'

/**
 * How the ladder knows a step of a workflow: its origin, its record and the error of a step that changed. The workflow stage
 * makes steps; no protocol can.
 */

/** Whose step a call is. Made by the server alone: no protocol can say it. */
export interface StepOrigin {
  /** The workflow that makes it, for texts. */
  readonly workflow: string
  /** The workflow's call. */
  readonly parent: string
  /** The call that began it all. */
  readonly root: string
  readonly name: string
  /** Which use of that name, from 1. */
  readonly nth: number
  /** How many workflows it is inside of. */
  readonly depth: number
  /** The run of the workflow, which tells of it too. */
  readonly run: RunScope
  /** What the workflow's claim pins this tool to. */
  readonly definitionHash: string
  readonly callId: string
  /** Whether the workflow has ended meanwhile: then nothing more begins. */
  hasWorkflowEnded(): boolean
}

/** Rule 31: a keyspace no protocol reaches, because their keys begin otherwise (OWP-94). */
export function stepRecord(
  store: Pick<KernelStore, 'digest'>,
  { parent, name, nth }: Pick<StepOrigin, 'parent' | 'name' | 'nth'>,
): string {
  return store.digest(JSON.stringify(['step', parent, name, nth]))
}

/** Rule 31: what is recorded under this step is not what the workflow asks for now. */
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
