import { describeIssue, ToolError } from '#core/errors'
import { copyJson, type JsonObject, type JsonValue } from '#core/json'
import type { StatefulContext, Tool } from '#core/tool'

/** Runs one tool of a pack, in whichever process this is. */
export async function runPackTool(
  tool: Tool,
  input: JsonObject,
  context: StatefulContext<unknown>,
): Promise<JsonValue | undefined> {
  const parsed = await tool.parseInput(input)
  if (!parsed.ok) {
    throw new ToolError(`The input does not fit: ${parsed.issues.map(describeIssue).join('; ')}`)
  }
  const value = await tool.run(parsed.input, context)
  if (value === undefined || tool.outputSchema === null) return undefined
  const copied = copyJson(value)
  if (copied.ok) return copied.value
  throw new ToolError('The tool gave something that is not JSON.', {
    developerMessage: `${copied.pointer}: ${copied.problem}`,
  })
}
