import { hash } from 'node:crypto'
import type { Gateway } from '#kernel/call/gateway'
import type { Catalog } from '#kernel/tool/catalog'
import type { HttpRoute } from '#protocols/http-exchange'
import { callRoute, FunctionTables, type OpenToolOptions, streamRoute } from './call-routes.ts'
import { OPENTOOL_VERSION } from './codec-document.ts'
import { jsonReply, refusePlainly } from './errors.ts'
import { BASE_PATH, CALL_PATH, LOAD_PATH, STOP_PATH, VERSION_PATH } from './wire.ts'

/*
 * The OpenTool 1.1.0 routes: version, index, document and stop; routes that run functions are in
 * `call-routes.ts`.
 * Loaded by `protocol.ts`.
 * Invariant: extensions are served only if they are turned on.
 */

export function opentoolRoutes(gateway: Gateway, options: OpenToolOptions): readonly HttpRoute[] {
  const parts = { gateway, tables: new FunctionTables(), options }
  return [
    versionRoute(options.version),
    indexRoute(),
    loadRoute(gateway, options),
    callRoute(parts),
    ...(options.streaming === true ? [streamRoute(parts)] : []),
    ...(options.stop === undefined ? [] : [stopRoute(options.stop)]),
  ]
}

/** `GET /version` (OTS-32). It also owns all of `/opentool`, unknown paths included (OTS-48). */
function versionRoute(version: string): HttpRoute {
  const body = JSON.stringify({ version })
  return {
    method: 'GET',
    path: VERSION_PATH,
    access: 'authenticated',
    body: 'never',
    owns: BASE_PATH,
    handle: () => jsonReply(200, body),
    refuse: refusePlainly,
  }
}

/** `GET /opentool`: an index, for people and programs that start at the address that `GET /` names. */
function indexRoute(): HttpRoute {
  const body = JSON.stringify({
    opentool: OPENTOOL_VERSION,
    version: VERSION_PATH,
    load: LOAD_PATH,
    call: CALL_PATH,
  })
  return {
    method: 'GET',
    path: BASE_PATH,
    access: 'authenticated',
    body: 'never',
    handle: () => jsonReply(200, body),
    refuse: refusePlainly,
  }
}

/** Delay before stopping, so that the answer can be sent. */
const STOP_AFTER_MS = 200

/** `POST /stop` (OTS-53): exists only where the operator turned it on and callers need a key. */
function stopRoute(stop: () => void): HttpRoute {
  return {
    method: 'POST',
    path: STOP_PATH,
    access: 'authenticated',
    body: 'never',
    handle() {
      setTimeout(stop, STOP_AFTER_MS)
      return jsonReply(200, '{"status":"stopped"}')
    },
    refuse: refusePlainly,
  }
}

interface PreparedDocument {
  readonly bytes: Uint8Array
  readonly etag: string
}

/** `GET /load`: the document of the caller's own tools (OTS-44, OTS-45), built once per catalog. */
function loadRoute(gateway: Gateway, { document }: Pick<OpenToolOptions, 'document'>): HttpRoute {
  const prepared = new WeakMap<Catalog, Promise<PreparedDocument>>()
  const find = (catalog: Catalog): Promise<PreparedDocument> => {
    const known = prepared.get(catalog)
    if (known !== undefined) return known
    const made = prepare(catalog, document)
    prepared.set(catalog, made)
    // A failure is not cached: the next request tries again.
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
