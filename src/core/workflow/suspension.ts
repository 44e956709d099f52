import { fault, type ToolError } from '#core/errors'

/** A workflow cannot go on now: it is put away, and its caller is told why. */
export class Suspension {
  /** What its caller is told; never a recorded outcome. */
  readonly error: ToolError
  /** The step it waits for, when that one is recorded; else `''`. */
  readonly waitsFor: string

  constructor(error: ToolError, waitsFor = '') {
    this.error = error
    this.waitsFor = waitsFor
  }
}

/** Something is in the way for the moment. A reply that a run has begun is no refusal (rule 11). */
export function heldUp(
  workflow: string,
  why: string,
  options: { readonly retryAfterMs?: number | undefined; readonly developerMessage?: string } = {},
): ToolError {
  const { retryAfterMs = 1_000, developerMessage } = options
  return fault(
    'outcome_unknown',
    `${workflow} is not finished: ${why} Its finished steps are kept; repeat the call with the same call id and it goes on.`,
    { retryAfterMs, ...(developerMessage === undefined ? {} : { developerMessage }) },
  )
}

/** Rule 31: a workflow waits while a step is ambiguous. */
export function ambiguousStep(
  workflow: string,
  step: { readonly tool: string; readonly record: string },
): ToolError {
  return fault(
    'ambiguous',
    `The server stopped while ${workflow} was calling ${step.tool}, so that step may or may not have taken effect. The workflow waits until an operator settles the step; then repeat the call with the same call id and it goes on.`,
    {
      developerMessage: `Settle the step with: collet calls settle ${step.record} --as succeeded|failed|not-run --why TEXT`,
    },
  )
}
