import type { RunPlace } from '#core/ports/run-store'
import type { Store } from '#core/ports/store'

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
  readonly place: RunPlace
  /** What the workflow's claim pins this tool to. */
  readonly definitionHash: string
  readonly callId: string
  /** Whether the workflow has ended meanwhile: then nothing more begins. */
  isOver(): boolean
}

/** Rule 31: a keyspace no protocol reaches, because their keys begin otherwise (OWP-94). */
export function stepRecord(
  store: Store,
  { parent, name, nth }: Pick<StepOrigin, 'parent' | 'name' | 'nth'>,
): string {
  return store.digest(JSON.stringify(['step', parent, name, nth]))
}
