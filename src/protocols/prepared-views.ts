import type { Catalog } from '#core/tools/catalog'
import { PreparedBytes } from './prepared-bytes.ts'

/**
 * Each catalog as each view shows it, built once, because a catalog may hold 10 000 tools. Principals that hold
 * the same scopes share a catalog, so this grows with the sets of scopes and not with the principals.
 */
export class PreparedViews {
  readonly #byCatalog = new WeakMap<Catalog, Map<string, PreparedBytes>>()
  readonly #mostViews: number

  /** Callers choose the view, so the number kept per catalog is bounded. */
  constructor(mostViews: number) {
    this.#mostViews = mostViews
  }

  get(catalog: Catalog, view: string, encode: () => string): PreparedBytes {
    const views = this.#viewsOf(catalog)
    const prepared = views.get(view) ?? new PreparedBytes(encode())
    // Moved to the end on every use, so that the one dropped is the one unused for longest.
    views.delete(view)
    const [oldest] = views.keys()
    if (views.size >= this.#mostViews && oldest !== undefined) views.delete(oldest)
    views.set(view, prepared)
    return prepared
  }

  #viewsOf(catalog: Catalog): Map<string, PreparedBytes> {
    const known = this.#byCatalog.get(catalog)
    if (known !== undefined) return known
    const views = new Map<string, PreparedBytes>()
    this.#byCatalog.set(catalog, views)
    return views
  }
}
