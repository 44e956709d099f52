import type { JsonObject } from '#core/json'
import type { MaybePromise } from './maybe-promise.ts'

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

/**
 * Sources beside those of the configuration. They are the installation's, like the configuration itself, so they have
 * no tenant. Options are sealed wherever they are written down; every change is journaled, without them.
 */
export interface SourceStore {
  /** All, by key. */
  list(): MaybePromise<readonly StoredSource[]>
  put(source: NewSource): MaybePromise<'added' | 'replaced' | 'exists'>
  remove(removal: SourceRemoval): MaybePromise<boolean>
  /** Raised by every change, seen by every process on the same store; 0 before the first source. */
  epoch(): MaybePromise<number>
}
