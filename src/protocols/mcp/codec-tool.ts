import type { JsonObject } from '#core/json'
import { isContentBlocksSchema, type Tool, type ToolPolicy } from '#core/tool'
import { toldOf } from '#core/tools/facts'
import { headerParameters, withoutHeaderAnnotations } from './codec-param-headers.ts'
import { toInputSchema, toOutputSchema } from './codec-tool-schema.ts'
import { META, NEW_REVISION, type Revision } from './wire.ts'

/** A tool as one revision lists it (MCP-50 to MCP-56). */
export function toWireTool(tool: Tool, name: string, revision: Revision): JsonObject {
  const output = outputOf(tool)
  return {
    name,
    ...(tool.title === undefined ? {} : { title: tool.title }),
    // Clients take it for required (T-21).
    description: tool.description || (tool.title ?? name),
    inputSchema: toInputSchema(inputOf(tool, revision), revision),
    ...(output === undefined ? {} : { outputSchema: toOutputSchema(output, revision) }),
    annotations: toAnnotations(tool.policy),
    // What the hints cannot say: its other names, and what a call needs.
    _meta: { [META.tool]: toldOf(tool) },
  }
}

/** What the tool declares about its value; any value, and none at all, are no promise (MCP-65). */
export function outputOf({ outputSchema, authored }: Tool): JsonObject | undefined {
  if (outputSchema === null || Object.keys(outputSchema).length === 0) return undefined
  // Content of another MCP server is content here too.
  if (isContentBlocksSchema(outputSchema)) return undefined
  return authored?.output ?? outputSchema
}

/** MCP-48: only our own tools may ask for headers, and only in the revision that has them. */
function inputOf(tool: Tool, revision: Revision): JsonObject {
  const schema = tool.authored?.input ?? tool.inputSchema
  const isAnnotated = JSON.stringify(schema).includes('x-mcp-header')
  if (!isAnnotated) return schema
  const keeps = revision === NEW_REVISION && headersAskedBy(tool).length > 0
  return keeps ? schema : withoutHeaderAnnotations(schema)
}

export function headersAskedBy(tool: Tool): ReturnType<typeof headerParameters> {
  const isOwn = tool.source === 'node-pack' || tool.source === 'workflow'
  return isOwn ? headerParameters(tool.authored?.input ?? tool.inputSchema) : []
}

/** MCP-56: hints derived from the policy, which is what is enforced. */
function toAnnotations({ safetyTier, replay, egress }: ToolPolicy): JsonObject {
  const readOnlyHint = safetyTier === 'pure' || safetyTier === 'read'
  const openWorldHint = safetyTier !== 'pure' && egress !== 'none'
  if (readOnlyHint) return { readOnlyHint, openWorldHint }
  return {
    readOnlyHint,
    destructiveHint: true,
    idempotentHint: replay !== 'non-deterministic',
    openWorldHint,
  }
}
