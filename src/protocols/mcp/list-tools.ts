import { isJsonObject, type JsonValue } from '#core/json'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { type Answer, errorAnswer, resultAnswer } from './answer.ts'
import type { McpExchange } from './exchange.ts'
import type { McpServices } from './options.ts'
import type { ResultFrames } from './result-frames.ts'
import type { ToolLists } from './tool-lists.ts'
import { NEW_REVISION } from './wire.ts'

/** MCP-45, T-27: short, and nobody else's. */
const CACHING = ',"ttlMs":5000,"cacheScope":"private"'

/** `tools/list`: the caller's own catalog, the newest version of each tool (MCP-40 to MCP-45). */
export function listTools(
  parts: { readonly services: McpServices; readonly lists: ToolLists; readonly frames: ResultFrames },
  params: JsonValue | undefined,
  { id, principal, revision }: McpExchange,
): Answer {
  const cursor = isJsonObject(params) ? params.cursor : undefined
  const catalog = parts.services.gateway.catalogFor(principal)
  const isCursor = cursor === undefined || typeof cursor === 'string'
  const page = isCursor ? parts.lists.page(catalog, { revision, principal, cursor }) : undefined
  if (page === undefined) {
    const message = 'params.cursor is not one that this list gave. List from the start.'
    return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message })
  }
  const next = page.nextCursor === undefined ? '' : `,"nextCursor":${JSON.stringify(page.nextCursor)}`
  const caching = revision === NEW_REVISION ? CACHING : ''
  return resultAnswer(id, parts.frames.of(revision).complete(`"tools":${page.toolsJson}${next}${caching}`))
}
