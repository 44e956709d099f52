import type { Principal } from './principal.ts'

/** Whether a principal's own catalog is among those that changed: nobody hears of tools hidden from them (rule 2). */
export type IsAffected = (principal: Principal) => boolean

export type CatalogListener = (isAffected: IsAffected) => void

/** Tells open streams that tools came, went or changed. Whoever replaces tools calls `notify` afterwards. */
export class CatalogChanges {
  readonly #listeners = new Set<CatalogListener>()

  notify(isAffected: IsAffected = () => true): void {
    for (const listener of [...this.#listeners]) listener(isAffected)
  }

  /** Gives the way to stop listening. */
  listen(listener: CatalogListener): () => void {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }
}
