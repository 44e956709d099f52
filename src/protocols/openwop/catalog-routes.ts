import type { Gateway } from '#core/calls/gateway'
import { fault, type ToolError } from '#core/errors'
import type { Tool } from '#core/tool'
import { API_KEY_HEADERS, type HttpReply, type HttpRequest, type HttpRoute } from '#protocols/http-exchange'
import { PreparedBytes, replyPrepared } from '#protocols/prepared-bytes'
import { PreparedViews } from '#protocols/prepared-views'
import {
  type DecodeOptions,
  decodeListForm,
  encodeCompact,
  encodeList,
  encodeStandard,
  isCompact,
  MOST_FORMS,
} from './codec-list.ts'
import { refuse } from './refuse.ts'
import { TOOL_PATH, TOOLS_PATH } from './wire.ts'

/** Ours to the caller alone, and asked about again each time: scopes may change. */
const HEADERS = {
  vary: ['accept-encoding', 'authorization', ...API_KEY_HEADERS].join(', '),
  'cache-control': 'private, no-cache',
}

/** The read-only catalog (OWP-10…28): what this principal may call, described and never invoked. */
export function catalogRoutes(gateway: Gateway, options: DecodeOptions): readonly HttpRoute[] {
  const lists = new PreparedViews(MOST_FORMS)
  const list = (request: HttpRequest): Promise<HttpReply> => {
    const form = decodeListForm(request.query, options)
    const catalog = gateway.catalogFor(request.principal)
    const prepared = lists.get(catalog, `${form.view} ${form.source}`, () =>
      encodeList(form, catalog.latest().toSorted(byCatalogId)),
    )
    return replyPrepared(request, prepared, HEADERS)
  }

  const standard = new PreparedTools(encodeStandard)
  const compact = new PreparedTools(encodeCompact)
  const byId = ({ principal, params, query, headers }: HttpRequest): Promise<HttpReply> => {
    const tool = gateway.catalogFor(principal).find(params.toolId ?? '')
    if (tool === undefined) throw noSuchTool()
    return replyPrepared({ headers }, (isCompact(query, options) ? compact : standard).get(tool), HEADERS)
  }
  return [guarded(TOOLS_PATH, list), guarded(TOOL_PATH, byId)]
}

/** By code unit of the id, so that an unchanged catalog reads the same (OWP-17). */
function byCatalogId(left: Tool, right: Tool): number {
  return left.catalogId < right.catalogId ? -1 : 1
}

/** The same for an unknown and a withheld id: it names none (OWP-14, OWP-22). */
function noSuchTool(): ToolError {
  return fault('tool_not_found', 'There is no such tool, or you may not see it; GET /v1/tools lists yours.')
}

function guarded(path: string, handle: HttpRoute['handle']): HttpRoute {
  return { method: 'GET', path, access: 'authenticated', body: 'never', handle, refuse }
}

/** Descriptors as they leave, one per tool that was asked for. */
class PreparedTools {
  readonly #byTool = new WeakMap<Tool, PreparedBytes>()
  readonly #encode: (tool: Tool) => string

  constructor(encode: (tool: Tool) => string) {
    this.#encode = encode
  }

  get(tool: Tool): PreparedBytes {
    const known = this.#byTool.get(tool)
    if (known !== undefined) return known
    const prepared = new PreparedBytes(this.#encode(tool))
    this.#byTool.set(tool, prepared)
    return prepared
  }
}
