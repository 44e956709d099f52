import type { Shown, Success } from '#core/call'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { Tool } from '#core/tool'
import { isObjectSchema, outputOf } from './codec-tool.ts'
import { NEW_REVISION, type Revision } from './wire.ts'

/** How values of one tool are written, found once per tool. */
interface ValueShape {
  /** `undefined` = declares nothing about its value. */
  readonly output: JsonObject | undefined
  readonly isObject: boolean
  /** Any value: it may bring content blocks of its own. */
  readonly isAny: boolean
  readonly isNothing: boolean
}

const shapes = new WeakMap<Tool, ValueShape>()

function shapeOf(tool: Tool): ValueShape {
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

/**
 * The members of a result that carry the value: its bytes as they were stored, and the same as text (MCP-64 to
 * MCP-67). `tool` is absent when the call was recorded for one that is gone.
 */
export function encodeValue(
  { valueJson, shown }: Success,
  tool: Tool | undefined,
  revision: Revision,
): string {
  if (shown !== undefined && shown.contentJson === undefined) return contentMembers(valueJson, revision)
  const shape = tool === undefined ? undefined : shapeOf(tool)
  if (shape?.isNothing === true && valueJson === 'null') return '"content":[]'
  const own = shape?.isAny === true && shown === undefined ? readOwnContent(valueJson) : undefined
  if (own !== undefined) {
    const content = `"content":${JSON.stringify(own.content)}`
    if (own.structuredContent === undefined) return content
    const structured = JSON.stringify(own.structuredContent)
    return `${content},"structuredContent":${inRevision(structured, isPlainObject(structured), revision)}`
  }
  const isObject = shape?.output === undefined ? isPlainObject(valueJson) : shape.isObject
  const content = shown?.contentJson ?? `[{"type":"text","text":${JSON.stringify(valueJson)}}]`
  return `"content":${content},"structuredContent":${inRevision(valueJson, isObject, revision)}`
}

/** The members of a failure that another MCP server told, as it told them. */
export function encodeShownFailure(
  { contentJson = '[]', structuredJson }: Shown,
  revision: Revision,
): string {
  const content = `"content":${contentJson}`
  if (structuredJson === undefined) return content
  return `${content},"structuredContent":${inRevision(structuredJson, isPlainObject(structuredJson), revision)}`
}

/** A value that is content blocks of another MCP server, and `structuredContent` beside them if there was some. */
function contentMembers(valueJson: string, revision: Revision): string {
  if (revision === NEW_REVISION || !valueJson.includes('"structuredContent"')) return valueJson.slice(1, -1)
  const { content, structuredContent }: JsonObject = JSON.parse(valueJson)
  const members = `"content":${JSON.stringify(content)}`
  if (structuredContent === undefined) return members
  const structured = JSON.stringify(structuredContent)
  return `${members},"structuredContent":${inRevision(structured, isPlainObject(structured), revision)}`
}

function inRevision(json: string, isObject: boolean, revision: Revision): string {
  return revision === NEW_REVISION || isObject ? json : `{"result":${json}}`
}

function readOwnContent(valueJson: string): ReturnType<typeof readContentValue> {
  if (!isPlainObject(valueJson) || !valueJson.includes('"content"')) return undefined
  const value: JsonValue = JSON.parse(valueJson)
  return readContentValue(value)
}

/** Stored values are written without space before their first character. */
function isPlainObject(json: string): boolean {
  return json.startsWith('{')
}

/** A value that brings its own content blocks: texts, images, sounds, resources (MCP-64). */
interface ContentValue {
  readonly content: readonly JsonObject[]
  /** The value for programs, beside what is shown. */
  readonly structuredContent?: JsonValue
}

const MEMBERS: ReadonlySet<string> = new Set(['content', 'structuredContent'])

/**
 * A tool whose output is any value may give `{ content: […] }` in the shape of MCP, with or without
 * `structuredContent`; anything else in it makes it an ordinary value.
 */
function readContentValue(value: JsonValue): ContentValue | undefined {
  if (!isJsonObject(value) || !Array.isArray(value.content)) return undefined
  if (!Object.keys(value).every((member) => MEMBERS.has(member))) return undefined
  const content = value.content.filter(isBlock)
  if (content.length !== value.content.length) return undefined
  const { structuredContent } = value
  return { content, ...(structuredContent === undefined ? {} : { structuredContent }) }
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
