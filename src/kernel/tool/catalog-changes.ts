import type { EntryKind } from '#kernel/base/ids'
import type { Principal } from '#kernel/base/principal'

/**
 * Announces changes to the catalog: code that has replaced tools calls `notify`, which reaches the streams that clients have open.
 * Invariant: a caller is notified only of changes to its own catalog (rule 2).
 */

/** Whether a principal's own catalog changed, or its entries of one kind. */
type IsAffected = (principal: Principal, kind?: EntryKind) => boolean

type CatalogListener = (isAffected: IsAffected) => void

export class CatalogChanges {
  readonly #listeners = new Set<CatalogListener>()

  notify(isAffected: IsAffected = () => true): void {
    for (const listener of [...this.#listeners]) listener(isAffected)
  }

  /** Returns a function that stops listening. */
  listen(listener: CatalogListener): () => void {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }
}
