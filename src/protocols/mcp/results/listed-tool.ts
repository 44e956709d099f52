import { isJsonObject, type JsonObject } from '#kernel/base/json'
import type { Catalog } from '#kernel/tool/catalog'
import { mapSchema, toWireTool } from '#protocols/mcp/codec-tool'
import type { McpOptions } from '#protocols/mcp/exchange'
import type { ListedItem } from '#protocols/mcp/lists'
import type { ServedTool } from '#protocols/mcp/tool-tables'
import type { Revision } from '#protocols/mcp/wire'
import { needsShortenedMember, withNote } from './fit.ts'

/*
 * Writes one tool for `tools/list`, whole or compact (MCP-184). `features/tool-search.ts` builds the list with it.
 * Invariant: a compact tool accepts the same calls, and its description names the texts, examples and output schema that were left out.
 */

interface ListOptions {
  readonly catalog: Catalog
  readonly revision: Revision
  readonly options: Pick<McpOptions, 'modelBytes' | 'compact'>
}

export function listedTool(
  { name, tool }: ServedTool,
  { catalog, revision, options }: ListOptions,
): ListedItem {
  const wire = toWireTool(tool, name, revision, catalog.hasNativeNames)
  if (options.compact === true) return { name, json: JSON.stringify(compactTool(wire)) }
  const mayShortenResults = (tool.policy.modelBytes ?? options.modelBytes ?? 0) > 0
  const schema = mayShortenResults && needsShortenedMember(tool) ? wire.outputSchema : undefined
  const listed = isJsonObject(schema) ? { ...wire, outputSchema: withNote(schema) } : wire
  return { name, json: JSON.stringify(listed) }
}

const MAX_DESCRIPTION_LENGTH = 200
const MAX_PARAMETER_DESCRIPTION_LENGTH = 80
/** Keywords that only describe a schema and do not affect validation. */
const ANNOTATION_KEYWORDS = [
  'title',
  'examples',
  '$comment',
  '$schema',
  'markdownDescription',
  'x-examples',
] as const

function compactTool({ outputSchema, description, inputSchema, ...rest }: JsonObject): JsonObject {
  const leftOut = new Map<string, number>()
  const count = (what: string): void => void leftOut.set(what, (leftOut.get(what) ?? 0) + 1)
  const whole = typeof description === 'string' ? description : ''
  const short = beginning(whole, MAX_DESCRIPTION_LENGTH)
  if (short !== whole) count('a part of this text')
  if (outputSchema !== undefined) count('the output schema')
  const input = isJsonObject(inputSchema) ? compactSchema(inputSchema, count) : {}
  const named = [...leftOut].map(([what, times]) => (times > 1 ? `${what} (${times})` : what))
  const text = named.length === 0 ? short : `${short} [Left out: ${named.join(', ')}]`
  return { ...rest, description: text, inputSchema: input }
}

function compactSchema(schema: JsonObject, count: (what: string) => void): JsonObject {
  return mapSchema(schema, (inner) => {
    const kept = Object.entries(inner).filter(([keyword]) => {
      const isDropped = ANNOTATION_KEYWORDS.some((known) => known === keyword)
      if (isDropped && keyword === 'examples') count('examples')
      return !isDropped
    })
    const shortened = kept.map(([keyword, value]) => {
      if (keyword !== 'description' || typeof value !== 'string') return [keyword, value]
      const short = beginning(value, MAX_PARAMETER_DESCRIPTION_LENGTH)
      if (short !== value) count('parts of parameter descriptions')
      return [keyword, short]
    })
    return Object.fromEntries(shortened)
  })
}

/** The beginning of a text: whole sentences if at least one fits, otherwise whole words. */
function beginning(text: string, length: number): string {
  if (text.length <= length) return text
  const start = text.slice(0, length)
  const sentence = Math.max(start.lastIndexOf('. '), start.lastIndexOf('.\n'), start.lastIndexOf('\n\n'))
  if (sentence > 0) return start.slice(0, sentence + 1).trimEnd()
  const word = start.lastIndexOf(' ')
  return `${start.slice(0, word > 0 ? word : length).toWellFormed()}…`
}
