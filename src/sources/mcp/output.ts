import { fault } from '#core/errors'
import type { JsonArray, JsonObject, JsonValue } from '#core/json'
import { ShownValue } from '#core/tool'
import { isWireArray, isWireObject, textOf } from './wire.ts'

const LONGEST_ERROR = 8000

/** About the upstream's own exchange (§1.3), or names of ours that only we may use. */
const NOT_PASSED_ON = /^(?:collet\/|[^./]+\.(?:mcp|modelcontextprotocol)(?:\.[^/]*)?\/)/

/**
 * The value of a result: structured where the definition promises that, content blocks everywhere else. What was shown
 * beside it goes along, for callers who speak MCP too.
 */
export function readOutput(result: JsonObject, isStructured: boolean): JsonValue | ShownValue {
  const content = isWireArray(result.content) ? result.content : undefined
  const { structuredContent } = result
  const meta = metaOf(result)
  if (result.isError === true)
    throw fault('tool_failed', errorText(content ?? []), {
      shown: {
        content: content ?? [],
        ...(structuredContent === undefined ? {} : { structuredContent }),
        ...meta,
      },
    })
  if (!isStructured) {
    const blocks = content ?? []
    const value =
      structuredContent === undefined ? { content: blocks } : { content: blocks, structuredContent }
    return new ShownValue(value, meta)
  }
  if (structuredContent === undefined)
    throw fault('output_invalid', 'The tool gave no structured result, although its definition says so.', {
      developerMessage: 'The result has no structuredContent, but the tool has an outputSchema (MCP-65).',
    })
  if (content === undefined) return structuredContent
  return new ShownValue(structuredContent, { content, ...meta })
}

function metaOf({ _meta }: JsonObject): { readonly meta?: JsonObject } {
  if (!isWireObject(_meta)) return {}
  const members = Object.entries(_meta).filter(([name]) => !NOT_PASSED_ON.test(name))
  return members.length === 0 ? {} : { meta: Object.fromEntries(members) }
}

/** What the upstream said about its failure, as one text. */
function errorText(content: JsonArray): string {
  const texts = content.flatMap((block) => {
    if (!isWireObject(block)) return []
    return [textOf(block.text) ?? `[${textOf(block.type) ?? 'unknown'}]`]
  })
  const text = texts.join('\n').trim()
  if (text === '') return 'The tool failed and did not say why.'
  return text.length > LONGEST_ERROR ? `${text.slice(0, LONGEST_ERROR)}…` : text
}
