import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { REFERENCES } from '#core/schema/keywords'
import { mapSchema } from './codec-map-schema.ts'
import { NEW_REVISION, type Revision } from './wire.ts'

/** Some models refuse an object schema that names no `properties`. */
const NO_PARAMETERS: JsonObject = { type: 'object', properties: {}, additionalProperties: false }

/** MCP-51, MCP-52, MCP-55: the schema as it was written, with an object at its root. */
export function toInputSchema(schema: JsonObject, revision: Revision): JsonObject {
  if (Object.keys(schema).length === 0) return NO_PARAMETERS
  const isWhole = schema.type === 'object' && schema.properties !== undefined
  const rooted: JsonObject = isWhole ? schema : { properties: {}, ...schema, type: 'object' }
  return revision === NEW_REVISION ? rooted : withoutBooleans(rooted)
}

/** MCP-53: older revisions take objects only, so everything else is put inside one. */
export function toOutputSchema(schema: JsonObject, revision: Revision): JsonObject {
  if (revision === NEW_REVISION) return schema
  return withoutBooleans(isObjectSchema(schema) ? schema : wrapSchema(schema))
}

/** Whether values of this schema go out as they are in every revision (MCP-67). */
export function isObjectSchema(schema: JsonObject): boolean {
  return schema.type === 'object'
}

function wrapSchema(schema: JsonObject): JsonObject {
  const { $schema, ...rest } = schema
  // A schema with an id of its own is what its references are relative to, wherever it stands.
  const inner = '$id' in rest ? rest : mapSchema(rest, moveReferences)
  return {
    ...($schema === undefined ? {} : { $schema }),
    type: 'object',
    properties: { result: inner },
    required: ['result'],
  }
}

function moveReferences(schema: JsonObject): JsonObject {
  if (![...REFERENCES].some((keyword) => keyword in schema)) return schema
  return Object.fromEntries(
    Object.entries(schema).map(([keyword, value]) => [
      keyword,
      REFERENCES.has(keyword) ? moveReference(value) : value,
    ]),
  )
}

function moveReference(reference: JsonValue): JsonValue {
  if (typeof reference !== 'string') return reference
  return reference === '#' || reference.startsWith('#/')
    ? `#/properties/result${reference.slice(1)}`
    : reference
}

/** Older revisions describe the members of `properties` as objects. */
function withoutBooleans(schema: JsonObject): JsonObject {
  const { properties } = schema
  if (!isJsonObject(properties) || !Object.values(properties).some((value) => typeof value === 'boolean'))
    return schema
  const plain = Object.entries(properties).map(([name, value]): [string, JsonValue] => [
    name,
    typeof value === 'boolean' ? (value ? {} : { not: {} }) : value,
  ])
  return { ...schema, properties: Object.fromEntries(plain) }
}
