import { hash } from 'node:crypto'
import type { Gateway } from '#core/calls/gateway'
import type { Catalog } from '#core/tools/catalog'
import type { HttpRoute } from '#protocols/http-exchange'
import type { OpenToolOptions } from './options.ts'
import { refusePlainly } from './refuse.ts'
import { jsonReply } from './reply.ts'
import { LOAD_PATH } from './wire.ts'

interface PreparedDocument {
  readonly bytes: Uint8Array
  readonly etag: string
}

/** `GET /load`: the document of the caller's own tools (OTS-44, OTS-45). Made once per catalog. */
export function loadRoute(gateway: Gateway, { document }: Pick<OpenToolOptions, 'document'>): HttpRoute {
  const prepared = new WeakMap<Catalog, Promise<PreparedDocument>>()
  const find = (catalog: Catalog): Promise<PreparedDocument> => {
    const known = prepared.get(catalog)
    if (known !== undefined) return known
    const made = prepare(catalog, document)
    prepared.set(catalog, made)
    // The next request tries again.
    made.catch(() => prepared.delete(catalog))
    return made
  }
  return {
    method: 'GET',
    path: LOAD_PATH,
    access: 'authenticated',
    body: 'never',
    async handle({ principal, headers }) {
      const { bytes, etag } = await find(gateway.catalogFor(principal))
      const cache = { etag, 'cache-control': 'private, no-cache', vary: 'authorization' }
      if (isKnown(headers['if-none-match'], etag)) return { status: 304, headers: cache, body: undefined }
      return { ...jsonReply(200, '', cache), body: bytes }
    },
    refuse: refusePlainly,
  }
}

async function prepare(catalog: Catalog, document: OpenToolOptions['document']): Promise<PreparedDocument> {
  const bytes = Buffer.from((await document?.(catalog)) ?? '{}')
  return { bytes, etag: `"${hash('sha256', bytes, 'base64url')}"` }
}

function isKnown(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false
  return ifNoneMatch.split(',').some((tag) => ['*', etag].includes(tag.trim().replace(/^W\//, '')))
}
