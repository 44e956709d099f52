import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '#kernel/base/json'
import type { Shown, Success } from '#kernel/call/call'
import type { Tool, ToolPolicy } from '#kernel/tool/tool'
import { isObjectSchema, outputOf } from '#protocols/mcp/codec-tool'
import { type Revision, TRAITS } from '#protocols/mcp/wire'

/*
 * Writes the value of a call as `content` and `structuredContent`, and reads values that consist of content blocks.
 * `reply.ts` sends the written members; `fit.ts` shortens the parts that are read here.
 * Invariant: `encodeValue` copies stored values byte for byte.
 */

/** The members of a tool that decide how its results are shown. `src/agents` makes such objects for tools on another server. */
export interface ShownTool extends Pick<Tool, 'source' | 'outputSchema' | 'authored' | 'checkOutput'> {
  readonly policy: Pick<ToolPolicy, 'modelBytes' | 'project' | 'modelFormat'>
}

interface ValueShape {
  readonly output: JsonObject | undefined
  readonly isObject: boolean
  /** True if any value is allowed, which includes content blocks. */
  readonly isAny: boolean
  readonly isNothing: boolean
}

const shapes = new WeakMap<ShownTool, ValueShape>()

export function shapeOf(tool: ShownTool): ValueShape {
  const known = shapes.get(tool)
  if (known !== undefined) return known
  const output = outputOf(tool)
  const shape = {
    output,
    isObject: output !== undefined && isObjectSchema(output),
    isAny: output === undefined && tool.outputSchema !== null,
    isNothing: tool.outputSchema === null,
  }
  shapes.set(tool, shape)
  return shape
}

/** The value as `structuredContent` and as text (MCP-64 to MCP-67). `tool` is absent if it was removed since the call. */
export function encodeValue(
  { valueJson, shown }: Success,
  tool: ShownTool | undefined,
  revision: Revision,
): string {
  if (shown !== undefined && shown.contentJson === undefined) return contentMembers(valueJson, revision)
  const shape = tool === undefined ? undefined : shapeOf(tool)
  if (shape?.isNothing === true && valueJson === 'null') return '"content":[]'
  const own = shape?.isAny === true && shown === undefined ? readOwnContent(valueJson) : undefined
  if (own !== undefined) {
    const content = `"content":${JSON.stringify(own.content)}`
    if (own.structuredContent === undefined) return content
    return `${content},${structuredMember(JSON.stringify(own.structuredContent), revision)}`
  }
  // A recorded value may come from an earlier version of the tool with another schema, so the value itself is checked.
  const isObject = isPlainObject(valueJson) && (shape?.output === undefined || shape.isObject)
  const content = shown?.contentJson ?? `[{"type":"text","text":${JSON.stringify(valueJson)}}]`
  return `"content":${content},${structuredMember(valueJson, revision, isObject)}`
}

/** A result with its parts parsed. */
interface ContentParts {
  /** Absent if the value itself is the content, as JSON. */
  readonly blocks: readonly JsonObject[] | undefined
  readonly structured: JsonValue | undefined
}

/** The parts of a result, as `encodeValue` sends them. */
export function contentParts({ valueJson, shown }: Success, tool: ShownTool | undefined): ContentParts {
  const value: JsonValue = JSON.parse(valueJson)
  if (shown !== undefined) {
    const isValue = shown.contentJson === undefined && isJsonObject(value)
    const content: JsonValue | undefined = isValue ? value.content : parseJson(shown.contentJson ?? '')
    const blocks = Array.isArray(content) ? content.filter(isJsonObject) : []
    return { blocks, structured: isValue ? value.structuredContent : value }
  }
  const own = tool !== undefined && shapeOf(tool).isAny ? readContentValue(value) : undefined
  return own === undefined
    ? { blocks: undefined, structured: value }
    : { blocks: own.content, structured: own.structuredContent }
}

/** A failure as another MCP server sent it. */
export function encodeShownFailure(
  { contentJson = '[]', structuredJson }: Shown,
  revision: Revision,
): string {
  const content = `"content":${contentJson}`
  if (structuredJson === undefined) return content
  return `${content},${structuredMember(structuredJson, revision)}`
}

/** The members of a stored value that another MCP server sent: content blocks and perhaps `structuredContent`. */
function contentMembers(valueJson: string, revision: Revision): string {
  if (TRAITS[revision].hasFullSchemas || !valueJson.includes('"structuredContent"'))
    return valueJson.slice(1, -1)
  const { content, structuredContent }: JsonObject = JSON.parse(valueJson)
  const members = `"content":${JSON.stringify(content)}`
  if (structuredContent === undefined) return members
  return `${members},${structuredMember(JSON.stringify(structuredContent), revision)}`
}

/** Older revisions accept only objects, so other values are wrapped (MCP-67). */
export function structuredMember(json: string, revision: Revision, isObject = isPlainObject(json)): string {
  return `"structuredContent":${TRAITS[revision].hasFullSchemas || isObject ? json : `{"result":${json}}`}`
}

function readOwnContent(valueJson: string): ReturnType<typeof readContentValue> {
  if (!isPlainObject(valueJson) || !valueJson.includes('"content"')) return undefined
  const value: JsonValue = JSON.parse(valueJson)
  return readContentValue(value)
}

/** Stored values have no leading whitespace. */
function isPlainObject(json: string): boolean {
  return json.startsWith('{')
}

/** A value that consists of content blocks: text, images, audio, resources (MCP-64). */
interface ContentValue {
  readonly content: readonly JsonObject[]
  readonly structuredContent?: JsonValue
}

const MEMBERS: ReadonlySet<string> = new Set(['content', 'structuredContent'])

/**
 * A tool without a declared output may return MCP content, `{ content: […] }`, with or without `structuredContent`. A value
 * with any other member is an ordinary value.
 */
function readContentValue(value: JsonValue): ContentValue | undefined {
  if (!isJsonObject(value) || !Array.isArray(value.content)) return undefined
  if (!Object.keys(value).every((member) => MEMBERS.has(member))) return undefined
  const content = value.content.filter(isBlock)
  if (content.length !== value.content.length) return undefined
  const { structuredContent } = value
  if (content.length > 0)
    return { content, ...(structuredContent === undefined ? {} : { structuredContent }) }
  // Without any block, a model that reads only blocks would see nothing of the structured value.
  if (structuredContent === undefined) return undefined
  return { content: [{ type: 'text', text: JSON.stringify(structuredContent) }], structuredContent }
}

function isBlock(block: JsonValue): block is JsonObject {
  if (!isJsonObject(block)) return false
  switch (block.type) {
    case 'text':
      return typeof block.text === 'string'
    case 'image':
    case 'audio':
      return typeof block.data === 'string' && typeof block.mimeType === 'string'
    case 'resource_link':
      return typeof block.uri === 'string' && typeof block.name === 'string'
    case 'resource':
      return isResource(block.resource)
    default:
      return false
  }
}

function isResource(resource: JsonValue | undefined): boolean {
  return (
    isJsonObject(resource) &&
    typeof resource.uri === 'string' &&
    (typeof resource.text === 'string' || typeof resource.blob === 'string')
  )
}
