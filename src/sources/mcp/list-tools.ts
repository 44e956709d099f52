import type { JsonObject } from '#core/json'
import { Breather } from '#core/runtime'
import type { Connection } from './connection.ts'
import { isWireArray, isWireObject, textOf } from './wire.ts'

const MOST_PAGES = 1000
const MOST_TOOLS = 10_000
const MIB = 1_048_576
/** They are held until all are here. */
const LARGEST_LISTING_BYTES = 16 * MIB

export interface ToolListing {
  readonly tools: readonly JsonObject[]
  readonly warnings: readonly string[]
}

/** Every page of `tools/list` (T-12), but no endless ones. */
export async function listTools(connection: Connection, signal: AbortSignal): Promise<ToolListing> {
  if (connection.client.getServerCapabilities()?.tools === undefined)
    return { tools: [], warnings: ['the server says that it has no tools'] }
  const tools: JsonObject[] = []
  const seen = new Set<string>()
  let cursor: string | undefined
  let bytes = 0
  const breather = new Breather()
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const result = await connection.request('tools/list', cursor === undefined ? {} : { cursor }, signal)
    if (!isWireArray(result.tools)) throw new TypeError('tools/list gave no list of tools')
    // Reading the page was a long step already.
    await breather.breathe()
    for (const tool of result.tools) {
      bytes += Buffer.byteLength(JSON.stringify(tool))
      if (bytes > LARGEST_LISTING_BYTES)
        return {
          tools,
          warnings: [`only the first ${LARGEST_LISTING_BYTES / MIB} MiB of tools/list are read`],
        }
      if (isWireObject(tool)) tools.push(tool)
      if (breather.isDue) await breather.breathe()
    }
    if (tools.length > MOST_TOOLS)
      return { tools: tools.slice(0, MOST_TOOLS), warnings: [`only the first ${MOST_TOOLS} tools are read`] }
    cursor = textOf(result.nextCursor)
    if (cursor === undefined) return { tools, warnings: [] }
    if (seen.has(cursor)) return { tools, warnings: ['the pages of tools/list run in a circle'] }
    seen.add(cursor)
  }
  return { tools, warnings: [`only the first ${MOST_PAGES} pages of tools/list are read`] }
}
