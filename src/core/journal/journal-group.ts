import type { JournalEvent } from './journal-event.ts'

/** A place in one writer's chain. */
export interface JournalHead {
  readonly writer: string
  /** Number of the group in its chain, from 0. */
  readonly group: number
  /** HMAC over the group and the link before it; empty on a store that does not chain. */
  readonly link: string
}

/** The events of one commit, in order, and the link that seals them. */
export interface JournalGroup extends JournalHead {
  readonly atMs: number
  readonly events: readonly JournalEvent[]
}
