import { hash } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Catalog } from '#core/catalog'
import { encodeList, type ListForm } from './codec-list.ts'

const compress = promisify(gzip)

/** A list as it leaves: built once per catalog and form, because a catalog may hold 10 000 tools. */
export class PreparedList {
  readonly bytes: Uint8Array<ArrayBuffer>
  /** Strong: a digest of the bytes. */
  readonly etag: string
  readonly gzipEtag: string
  #compressed: Promise<Uint8Array> | undefined

  constructor(json: string) {
    this.bytes = Buffer.from(json)
    const digest = hash('sha256', this.bytes, 'base64url')
    this.etag = `"${digest}"`
    this.gzipEtag = `"${digest}-gzip"`
  }

  /** Compressed at the first demand, off the main thread. */
  compressed(): Promise<Uint8Array> {
    this.#compressed ??= compress(this.bytes)
    return this.#compressed
  }
}

/** Callers choose the spelling of `$schema`, so the number of variants kept per catalog is bounded. */
const MOST_VARIANTS = 8

export class PreparedLists {
  readonly #byCatalog = new WeakMap<Catalog, Map<string, PreparedList>>()
  readonly #toolkits: ReadonlyMap<string, string>

  constructor(toolkits: ReadonlyMap<string, string>) {
    this.#toolkits = toolkits
  }

  get(catalog: Catalog, form: ListForm): PreparedList {
    const variants = this.#variantsOf(catalog)
    const key = `${form.shape} ${form.schemaId}`
    const list = variants.get(key) ?? this.#build(catalog, form)
    // Moved to the end on every use, so that the one dropped is the one unused for longest.
    variants.delete(key)
    const [oldest] = variants.keys()
    if (variants.size >= MOST_VARIANTS && oldest !== undefined) variants.delete(oldest)
    variants.set(key, list)
    return list
  }

  #build(catalog: Catalog, form: ListForm): PreparedList {
    return new PreparedList(encodeList(form, { tools: catalog.tools, toolkits: this.#toolkits }))
  }

  #variantsOf(catalog: Catalog): Map<string, PreparedList> {
    const known = this.#byCatalog.get(catalog)
    if (known !== undefined) return known
    const variants = new Map<string, PreparedList>()
    this.#byCatalog.set(catalog, variants)
    return variants
  }
}
