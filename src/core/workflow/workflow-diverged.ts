import { fault, type ToolError } from '#core/errors'
import type { StepOrigin } from './step-origin.ts'

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
