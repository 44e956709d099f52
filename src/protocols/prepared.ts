import { hash } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { BoundedMap } from '#kernel/base/bounded-map'
import { fault } from '#kernel/base/errors'
import type { Catalog } from '#kernel/tool/catalog'
import { DEFAULT_FOUND, MAX_FOUND } from '#search/tool-search'
import type { HttpReply, HttpRequest } from './http-exchange.ts'

/*
 * Response bodies that are encoded once and sent many times, with list views, pages, ETags and gzip. The list routes of OTC, openwop
 * and the admin API use it.
 * Invariant: the number of prepared views per catalog is bounded, because callers choose the view.
 */

/**
 * Encoded views of each catalog, built once because a catalog may contain 10 000 tools. Principals with equal
 * scopes share a catalog, so memory grows with the sets of scopes and not with the principals.
 */
export class PreparedViews {
  readonly #viewsOf: (catalog: Catalog) => BoundedMap<string, PreparedBytes>

  /** `maxViews` limits the views per catalog, because callers choose the view. */
  constructor(maxViews: number) {
    this.#viewsOf = oncePer(() => new BoundedMap({ entries: maxViews }))
  }

  get(catalog: Catalog, view: string, encode: () => string): PreparedBytes {
    const views = this.#viewsOf(catalog)
    const prepared = views.get(view) ?? new PreparedBytes(encode())
    // The view is set again on every use, so that the least recently used view is dropped first.
    views.set(view, prepared)
    return prepared
  }
}

/** Computes a value once per object, and remembers it for as long as the object exists. */
export function oncePer<Key extends object, Value extends NonNullable<unknown>>(
  compute: (key: Key) => Value,
): (key: Key) => Value {
  const known = new WeakMap<Key, Value>()
  return (key) => {
    let value = known.get(key)
    if (value === undefined) {
      value = compute(key)
      known.set(key, value)
    }
    return value
  }
}

const MAX_PAGE = 1_000
const DEFAULT_PAGE = 100

interface ListPage {
  readonly limit: number
  /** Id of the last tool of the previous page; `undefined` on the first page. */
  readonly after: string | undefined
}

/** Reads `limit` and `cursor`; `undefined` when the request names neither and gets the whole list. */
export function readListPage(query: URLSearchParams): ListPage | undefined {
  const cursor = query.get('cursor')
  if (!query.has('limit') && cursor === null) return undefined
  const after = cursor === null ? undefined : Buffer.from(cursor, 'base64url').toString()
  return { limit: readLimit(query, DEFAULT_PAGE, MAX_PAGE), after }
}

/** Reads the search text `q` and the maximum number of results; `undefined` for a plain list. */
export function readSearch(
  query: URLSearchParams,
): { readonly text: string; readonly limit: number } | undefined {
  const text = query.get('q')?.trim() ?? ''
  return text === '' ? undefined : { text, limit: readLimit(query, DEFAULT_FOUND, MAX_FOUND) }
}

/** Reads the `limit` of a list; `defaultLimit` if the request names none. */
export function readLimit(query: URLSearchParams, defaultLimit: number, max: number): number {
  const text = query.get('limit')
  if (text === null) return defaultLimit
  const limit = /^[0-9]{1,4}$/.test(text) ? Number(text) : 0
  if (limit >= 1 && limit <= max) return limit
  throw fault('request_invalid', `"limit" must be a whole number from 1 to ${max}.`)
}

/** One page of a list, and the cursor of the next page. Throws if the list no longer has the tool that the cursor names. */
export function takePage<Item>(
  items: readonly Item[],
  { limit, after }: ListPage,
  idOf: (item: Item) => string,
): { readonly items: readonly Item[]; readonly nextCursor: string | undefined } {
  const start = after === undefined ? 0 : items.findIndex((item) => idOf(item) === after) + 1
  if (after !== undefined && start === 0)
    throw fault('request_invalid', '"cursor" is unknown or no longer valid. List again from the start.')
  const page = items.slice(start, start + limit)
  const last = page.at(-1)
  const hasMore = last !== undefined && start + limit < items.length
  return { items: page, nextCursor: hasMore ? Buffer.from(idOf(last)).toString('base64url') : undefined }
}

/** `Link` to the next page, for bodies that have no member for it (RFC 8288). */
export function nextPageLink(
  { path, query }: Pick<HttpRequest, 'path' | 'query'>,
  nextCursor: string | undefined,
): { readonly link?: string } {
  if (nextCursor === undefined) return {}
  const next = new URLSearchParams(query)
  next.set('cursor', nextCursor)
  return { link: `<${path}?${next}>; rel="next"` }
}

const compress = promisify(gzip)

export class PreparedBytes {
  readonly bytes: Uint8Array<ArrayBuffer>
  /** Strong ETag: a digest of the bytes. */
  readonly etag: string
  readonly gzipEtag: string
  #compressed: Promise<Uint8Array> | undefined

  constructor(json: string) {
    this.bytes = Buffer.from(json)
    const digest = hash('sha256', this.bytes, 'base64url')
    this.etag = `"${digest}"`
    this.gzipEtag = `"${digest}-gzip"`
  }

  /** Compresses on first use, off the main thread. */
  compressed(): Promise<Uint8Array> {
    this.#compressed ??= compress(this.bytes)
    return this.#compressed
  }
}

/** Answers 200 with the bytes, compressed if the request accepts gzip, or 304 if the client already has them. */
export async function replyPrepared(
  { headers: requestHeaders }: Pick<HttpRequest, 'headers'>,
  prepared: PreparedBytes,
  headers: Readonly<Record<string, string>>,
): Promise<HttpReply> {
  const isGzip = acceptsGzip(requestHeaders['accept-encoding'])
  const etag = isGzip ? prepared.gzipEtag : prepared.etag
  if (matchesEtag(requestHeaders['if-none-match'], etag)) {
    return { status: 304, headers: { ...headers, etag }, body: undefined }
  }
  return {
    status: 200,
    headers: {
      ...headers,
      etag,
      'content-type': 'application/json',
      ...(isGzip ? { 'content-encoding': 'gzip' } : {}),
    },
    body: isGzip ? await prepared.compressed() : prepared.bytes,
  }
}

function acceptsGzip(acceptEncoding: string | undefined): boolean {
  if (acceptEncoding === undefined) return false
  return acceptEncoding.split(',').some((choice) => {
    const [coding = '', ...parameters] = choice.split(';')
    const isRefused = parameters.some((parameter) => /^\s*q=0(?:\.0*)?\s*$/i.test(parameter))
    return coding.trim().toLowerCase() === 'gzip' && !isRefused
  })
}

/** Compares weakly, as RFC 9110 requires for `If-None-Match`. */
export function matchesEtag(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false
  if (ifNoneMatch.trim() === '*') return true
  return ifNoneMatch.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag)
}
