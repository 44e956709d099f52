import type { Gateway } from '#kernel/call/gateway'
import type { Catalog } from '#kernel/tool/catalog'
import type { HttpRoute } from '#protocols/http-exchange'
import { matchesEtag, PreparedBytes } from '#protocols/prepared'
import { callRoute, type OpenToolOptions, streamRoute } from './call-routes.ts'
import { OPENTOOL_VERSION } from './codec-document.ts'
import { jsonReply, refusePlainly } from './errors.ts'
import { BASE_PATH, CALL_PATH, LOAD_PATH, STOP_PATH, VERSION_PATH } from './wire.ts'

/*
 * The OpenTool 1.1.0 routes: version, index, document and stop; routes that run functions are in
 * `call-routes.ts`. Loaded by `protocol.ts`. Invariant: extensions are served only if they are turned on.
 */

export function opentoolRoutes(gateway: Gateway, options: OpenToolOptions): readonly HttpRoute[] {
  const parts = { gateway, options }
  const { version, stop } = options
  const index = { opentool: OPENTOOL_VERSION, version: VERSION_PATH, load: LOAD_PATH, call: CALL_PATH }
  return [
    // This route owns all of `/opentool`, including unknown paths (OTS-32, OTS-48).
    {
      ...plainRoute('GET', VERSION_PATH, () => jsonReply(200, JSON.stringify({ version }))),
      owns: BASE_PATH,
    },
    // An index for people and programs that open the address in the answer of `GET /`.
    plainRoute('GET', BASE_PATH, () => jsonReply(200, JSON.stringify(index))),
    loadRoute(gateway, options),
    callRoute(parts),
    ...(options.streaming === true ? [streamRoute(parts)] : []),
    ...(stop === undefined ? [] : [stopRoute(stop)]),
  ]
}

function plainRoute(method: HttpRoute['method'], path: string, handle: HttpRoute['handle']): HttpRoute {
  return { method, path, access: 'authenticated', body: 'never', handle, refuse: refusePlainly }
}

/** Delay before stopping, so that the answer can be sent. */
const STOP_AFTER_MS = 200

/** `POST /stop` (OTS-53), which exists only if the operator turned it on and callers need a key. */
function stopRoute(stop: () => void): HttpRoute {
  return plainRoute('POST', STOP_PATH, () => {
    setTimeout(stop, STOP_AFTER_MS)
    return jsonReply(200, '{"status":"stopped"}')
  })
}

/** `GET /load`: the document of the caller's own tools (OTS-44, OTS-45), built once per catalog. */
function loadRoute(gateway: Gateway, { document }: Pick<OpenToolOptions, 'document'>): HttpRoute {
  const prepared = new WeakMap<Catalog, Promise<PreparedBytes>>()
  const prepare = async (catalog: Catalog): Promise<PreparedBytes> =>
    new PreparedBytes((await document?.(catalog)) ?? '{}')
  const find = (catalog: Catalog): Promise<PreparedBytes> => {
    const known = prepared.get(catalog)
    if (known !== undefined) return known
    const made = prepare(catalog)
    prepared.set(catalog, made)
    // A failure is not cached: the next request tries again.
    made.catch(() => prepared.delete(catalog))
    return made
  }
  return plainRoute('GET', LOAD_PATH, async ({ principal, headers }) => {
    const { bytes, etag } = await find(gateway.catalogFor(principal))
    const cache = { etag, 'cache-control': 'private, no-cache', vary: 'authorization' }
    if (matchesEtag(headers['if-none-match'], etag)) return { status: 304, headers: cache, body: undefined }
    return { ...jsonReply(200, '', cache), body: bytes }
  })
}
