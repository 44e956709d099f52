import type { JsonObject } from '#kernel/base/json'
import type { MaybePromise } from '#kernel/base/waiting'
import type { PinChanged } from '#kernel/journal/events'
import type { OfferedTool } from '#sources/kit/source'

/** A source that was added while the server runs, by `collet import` or the console. */
export interface StoredSource {
  readonly key: string
  /** As the configuration would have it: `{ type, … }`. May hold secrets. */
  readonly options: JsonObject
  readonly addedBy: string
  readonly addedMs: number
}

export interface NewSource extends StoredSource {
  /** Whether a source that has this key is replaced; else it stays. */
  readonly replace: boolean
}

/** Who takes a source away, and when. */
export interface SourceRemoval {
  readonly key: string
  readonly by: string
  readonly atMs: number
}

/** Who looks at what may become a source, and when. A look may start a program. */
export interface SourceLook {
  /** The address, file or program, without what may be a secret. */
  readonly target: string
  readonly by: string
  readonly atMs: number
}

/**
 * Sources beside those of the configuration. They are the installation's, like the configuration itself, so they have
 * no tenant. Options are sealed wherever they are written down; every change is journaled, without them.
 */
export interface SourceStore {
  /** All, by key. */
  list(): MaybePromise<readonly StoredSource[]>
  put(source: NewSource): MaybePromise<'added' | 'replaced' | 'exists'>
  remove(removal: SourceRemoval): MaybePromise<boolean>
  /** Journals a look before it is taken. */
  noteLook(look: SourceLook): MaybePromise<void>
  /** Raised by every change, seen by every process on the same store; 0 before the first source. */
  epoch(): MaybePromise<number>
}

/** What a change of a definition means for those who use it. */
export type ChangeClass = 'wording' | 'widening' | 'breaking' | 'suspicious'

/** A definition with who offered it. */
export interface KeptDefinition {
  readonly hash: string
  readonly offered: OfferedTool
  readonly identity: JsonObject
}

export interface AcceptedDefinition extends KeptDefinition {
  readonly version: string
  readonly atMs: number
  /** `first sight`, or who decided. */
  readonly by: string
}

/** What the upstream offers instead, until an operator decides. */
export interface WaitingChange {
  readonly kind: 'addition' | 'change' | 'removal'
  /** `undefined` for a removal. */
  readonly definition: KeptDefinition | undefined
  readonly class: ChangeClass
  /** Why it is suspicious, or what it is besides: for the operator. */
  readonly reasons: readonly string[]
  /** Native name of a tool that vanished when this one appeared. */
  readonly renamedFrom?: string
  readonly seenAtMs: number
  /** An operator said no. It stays so for as long as the upstream offers exactly this. */
  readonly rejected?: { readonly by: string; readonly atMs: number }
}

/** One tool of a source, by its native name. Never deleted, so a name in an id is never given twice. */
export interface PinRecord {
  readonly nativeName: string
  /** Its name in the id. */
  readonly local: string
  /** The last definition that was let in. */
  readonly accepted: AcceptedDefinition | undefined
  /** Whether agents see it; `false` before the first yes and after a removal was accepted. */
  readonly isServed: boolean
  readonly waiting: WaitingChange | undefined
}

export interface PinnedSource {
  readonly source: string
  /** Counts its writes; 0 = never seen, below 0 = the first sight was begun and not finished. */
  readonly revision: number
  readonly pins: readonly PinRecord[]
}

export interface PinWrite {
  readonly source: string
  /** The revision that this was decided on. */
  readonly seen: number
  /** More rows of the first sight follow: until the last of them everything is at first sight. */
  readonly isPartial?: boolean
  /** Rows that are new or other than before. */
  readonly pins: readonly PinRecord[]
  /** Whether what agents see or what calls do is other than before. */
  readonly changesServed: boolean
  readonly events: readonly PinChanged[]
}

/** The revision of a source after a write. */
export function nextRevision({ seen, isPartial = false }: Pick<PinWrite, 'seen' | 'isPartial'>): number {
  return isPartial ? Math.min(seen, 0) - 1 : Math.max(seen, 0) + 1
}

/** Definitions that were let in, and those that wait. */
export interface PinStore {
  /** In the order of their native names. */
  read(source: string): MaybePromise<PinnedSource>
  /** Without reading the definitions. */
  revision(source: string): MaybePromise<number>
  /**
   * All or nothing, and only if nobody wrote since `seen`; `stale` otherwise. The first write of a source makes a
   * unique row, so that of two replicas that see it at once one pins and the other reads (rule 32).
   */
  write(change: PinWrite): MaybePromise<'written' | 'stale'>
  /** Keys of all sources ever seen, in order. */
  sources(): MaybePromise<readonly string[]>
  /** Raised with every change of what is served, seen by every process on the same store. */
  epoch(): MaybePromise<number>
}
