import { fault, type InputIssue, issuePhrase, type ToolError } from '#core/errors'
import { isJsonObject, type JsonValue } from '#core/json'
import type { Tool } from '#core/tool'

/** OTC-80: wire check first, then the schema library's own parse, whose result `run` gets. */
export async function validateInput(tool: Tool, input: JsonValue): Promise<unknown> {
  if (!isJsonObject(input)) {
    throw fault('input_invalid', `The input of ${tool.id} must be a JSON object of parameters.`)
  }
  const issues = tool.checkInput(input)
  if (issues.length > 0) throw invalidInput(tool, issues)
  const parsed = tool.parseInput(input)
  const result = parsed instanceof Promise ? await parsed : parsed
  if (!result.ok) throw invalidInput(tool, result.issues)
  return result.input
}

function invalidInput(tool: Tool, issues: readonly InputIssue[]): ToolError {
  const said = issues.slice(0, 5).map(issuePhrase)
  const more = issues.length > said.length ? ` (and ${issues.length - said.length} more)` : ''
  return fault('input_invalid', `The input of ${tool.id} is invalid: ${said.join('; ')}${more}.`, { issues })
}
