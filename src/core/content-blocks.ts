import type { JsonArray, JsonObject, JsonValue } from './json.ts'
import type { Shown } from './outcome.ts'

/**
 * Output of a tool that describes none but gives content as MCP does: `{ content: [{ type: 'text', text: '…' }, …] }`.
 * Blocks are passed on as they came, so that a protocol which knows them can show pictures as pictures.
 */
export const CONTENT_BLOCKS_SCHEMA: JsonObject = {
  type: 'object',
  description: 'What the tool says, as content blocks of MCP: text, image, audio, resource_link or resource.',
  properties: {
    content: {
      type: 'array',
      items: { type: 'object', properties: { type: { type: 'string' } }, required: ['type'] },
    },
    structuredContent: { description: 'The same as plain JSON, when the tool gave it.' },
  },
  required: ['content'],
}

const WRITTEN = JSON.stringify(CONTENT_BLOCKS_SCHEMA)

/** Whether values of this schema are content blocks. */
export function isContentBlocksSchema(schema: JsonValue): boolean {
  return schema === CONTENT_BLOCKS_SCHEMA || JSON.stringify(schema) === WRITTEN
}

/** What another MCP server answered besides the value that programs read; a caller on MCP gets it back as it came. */
export interface ShownContent {
  /** Absent where the value itself holds the blocks. */
  readonly content?: JsonArray
  /** Of a failure, which has no value. */
  readonly structuredContent?: JsonValue
  readonly meta?: JsonObject
}

/** A value of a tool together with how its server showed it. */
export class ShownValue {
  readonly value: JsonValue
  readonly shown: ShownContent

  constructor(value: JsonValue, shown: ShownContent) {
    this.value = value
    this.shown = shown
  }
}

/** What programs read of an output. */
export function plainValue(output: JsonValue | ShownValue | undefined): JsonValue | undefined {
  return output instanceof ShownValue ? output.value : output
}

/** As it is recorded and sent. */
export function writeShown({ content, structuredContent, meta }: ShownContent): Shown {
  return {
    ...(content === undefined ? {} : { contentJson: JSON.stringify(content) }),
    ...(structuredContent === undefined ? {} : { structuredJson: JSON.stringify(structuredContent) }),
    ...(meta === undefined ? {} : { metaJson: JSON.stringify(meta) }),
  }
}

export function shownBytes(shown: Shown | undefined): number {
  if (shown === undefined) return 0
  const { contentJson = '', structuredJson = '', metaJson = '' } = shown
  return Buffer.byteLength(contentJson) + Buffer.byteLength(structuredJson) + Buffer.byteLength(metaJson)
}
