import { fault, ToolError } from '#core/errors'
import type { JsonArray, JsonObject, JsonValue } from '#core/json'
import { isWireArray, isWireObject, textOf } from './wire.ts'

const LONGEST_ERROR = 8000

/** The value of a result: structured where the definition promises that, content blocks everywhere else. */
export function readOutput(result: JsonObject, isStructured: boolean): JsonValue {
  const content = isWireArray(result.content) ? result.content : []
  if (result.isError === true) throw new ToolError(errorText(content))
  const { structuredContent } = result
  if (isStructured) {
    if (structuredContent !== undefined) return structuredContent
    throw fault('output_invalid', 'The tool gave no structured result, although its definition says so.', {
      developerMessage: 'The result has no structuredContent, but the tool has an outputSchema (MCP-65).',
    })
  }
  return structuredContent === undefined ? { content } : { content, structuredContent }
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
