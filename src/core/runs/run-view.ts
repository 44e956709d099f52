import type { RunEvent } from './run-event.ts'

/** What a reader of a run asks for. */
export interface RunQuery {
  readonly runId: string
  /** The last sequence it has; -1 for none. */
  readonly after: number
  /** How long to wait for something new before answering with nothing. */
  readonly waitMs: number
  readonly signal?: AbortSignal
}

/** Events after the asked place, in order, possibly not all there are. Readers at the same place share one object. */
export interface RunPage {
  /** Names the run in event ids; the same for every page. */
  readonly key: string
  /** Whose run it is, as an opaque text (OWP-51, OWP-62). */
  readonly principal: string
  readonly events: readonly RunEvent[]
  /** Nothing will follow these events. */
  readonly isComplete: boolean
}
