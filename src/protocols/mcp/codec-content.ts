import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'

/** A value that brings its own content blocks: texts, images, sounds, resources (MCP-64). */
export interface ContentValue {
  readonly content: readonly JsonObject[]
  /** The value for programs, beside what is shown. */
  readonly structuredContent?: JsonValue
}

const MEMBERS: ReadonlySet<string> = new Set(['content', 'structuredContent'])

/**
 * A tool whose output is any value may give `{ content: […] }` in the shape of MCP, with or without
 * `structuredContent`; anything else in it makes it an ordinary value.
 */
export function readContentValue(value: JsonValue): ContentValue | undefined {
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
