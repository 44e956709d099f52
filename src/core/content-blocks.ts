import type { JsonObject, JsonValue } from './json.ts'

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
