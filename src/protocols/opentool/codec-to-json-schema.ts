import { fault } from '#kernel/base/errors'
import {
  childPointer,
  describeValue,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  parseJson,
  setMember,
} from '#kernel/base/json'
import {
  isReference,
  mapMembers,
  OpenToolDocumentError,
  type OpenToolFunction,
  type OpenToolReference,
  type OpenToolReturn,
  type OpenToolSchema,
  type OpenToolSchemas,
} from './codec-document.ts'
import { targetOf } from './codec-document-references.ts'
import { referenceName } from './codec-document-schema.ts'

/*
 * Converts OpenTool functions to JSON Schema and to OpenAI tool definitions, and decodes a model's tool calls.
 * Used by the client, the OpenTool source and `fromOpenTool`.
 * Invariant: `toJsonSchema` keeps every member that has a meaning in OpenTool, and all `x-` members.
 */

/** A tool in the format of OpenAI's chat API, which other vendors use too. */
export interface OpenAiTool {
  readonly type: 'function'
  readonly function: {
    readonly name: string
    readonly description: string
    readonly parameters: JsonObject
  }
}

/** A model's tool call: arguments as JSON text. */
export interface OpenAiToolCall {
  readonly id: string
  readonly function: { readonly name: string; readonly arguments: string }
}

/** A decoded call; on the wire `arguments` is called `params`. */
export interface FunctionCall {
  readonly id: string
  readonly name: string
  readonly arguments: JsonObject
}

export function toOpenAiTool(definition: OpenToolFunction, options?: ToJsonSchemaOptions): OpenAiTool {
  const { name, description } = definition
  return {
    type: 'function',
    function: { name, description, parameters: toJsonSchema(definition, options).input },
  }
}

/** Decodes a model's call. Models may send an empty string if there are no arguments. Throws a `ToolError` that a model can act on. */
export function fromOpenAiToolCall({ id, function: called }: OpenAiToolCall): FunctionCall {
  const { name, arguments: text } = called
  const parsed = text.trim() === '' ? {} : parseJson(text)
  if (isJsonObject(parsed)) return { id, name, arguments: parsed }
  throw fault(
    'request_invalid',
    `The arguments of '${name}' are not a JSON object: write {"name": value, …}.`,
  )
}

export interface ToJsonSchemaOptions {
  /** `schemas` of the document, if the function still has references: they become `$defs`. */
  readonly schemas?: OpenToolSchemas
}

export interface FunctionJsonSchemas {
  /** Schema of the arguments as one object. */
  readonly input: JsonObject
  /** Schema of the result object on the wire; `null` if the function returns nothing. */
  readonly output: JsonObject | null
}

/** The extension member that keeps a schema's own description if the parameter's description replaces it, so that converting back is exact. */
export const SCHEMA_DESCRIPTION = 'x-opentool-schema-description'

/** Definitions referenced so far, by name. */
type UsedSchemas = Map<string, OpenToolSchema>

/** The JSON Schemas (2020-12) of a function's arguments and result, without loss. */
export function toJsonSchema(
  definition: Pick<OpenToolFunction, 'parameters' | 'return'>,
  { schemas = {} }: ToJsonSchemaOptions = {},
): FunctionJsonSchemas {
  const { parameters, return: returned } = definition
  const required = parameters.filter((parameter) => parameter.required).map(({ name }) => name)
  return {
    input: objectSchema(parameters, required, schemas),
    // A function that `codec-document-read.ts` did not read may still have `"return": null` (OTS-10).
    output: returned ? objectSchema([returned], [returned.name], schemas) : null,
  }
}

/**
 * JSON Schema of the return value of a function without references; `null` if it has no return value.
 * OpenTool cannot express "any value", and authors write an object without members instead (OTS-82), so such a schema accepts
 * any value here.
 */
export function valueSchemaOf({ return: returned }: Pick<OpenToolFunction, 'return'>): JsonObject | null {
  if (!returned) return null
  const widened = widenFreeObjects(propertySchema(returned, {}, new Map()))
  return isJsonObject(widened) ? widened : {}
}

function widenFreeObjects(schema: JsonValue): JsonValue {
  if (!isJsonObject(schema)) return schema
  const { type, properties, items, description } = schema
  const isFree = type === 'object' && (!isJsonObject(properties) || Object.keys(properties).length === 0)
  if (isFree) return description === undefined ? {} : { description }
  return {
    ...schema,
    ...(isJsonObject(properties) ? { properties: mapMembers(properties, widenFreeObjects) } : {}),
    ...(items === undefined ? {} : { items: widenFreeObjects(items) }),
  }
}

function objectSchema(
  members: readonly OpenToolReturn[],
  required: readonly string[],
  schemas: OpenToolSchemas,
): JsonObject {
  const used: UsedSchemas = new Map()
  const properties = Object.fromEntries(
    members.map((member) => [member.name, propertySchema(member, schemas, used)]),
  )
  const definitions: Record<string, JsonValue> = {}
  // `valueSchema` adds to the map when a definition refers to another one.
  for (const [name, schema] of used) setMember(definitions, name, valueSchema(schema, schemas, used))
  return {
    type: 'object',
    properties,
    ...(required.length === 0 ? {} : { required }),
    ...(used.size === 0 ? {} : { $defs: definitions }),
  }
}

/** The parameter's description takes precedence. A different description of the schema is kept for converting back. */
function propertySchema(
  { description, schema }: OpenToolReturn,
  schemas: OpenToolSchemas,
  used: UsedSchemas,
): JsonObject {
  const json = valueSchema(schema, schemas, used)
  if (description === undefined || description === json.description) return json
  const kept = isReference(schema) ? descriptionBehind(schema, schemas) : json.description
  const own = kept === undefined || kept === description ? {} : { [SCHEMA_DESCRIPTION]: kept }
  return { ...json, description, ...own }
}

function valueSchema(schema: OpenToolSchema, schemas: OpenToolSchemas, used: UsedSchemas): JsonObject {
  if (isReference(schema)) return { $ref: definitionOf(schema, schemas, used) }
  const { type, description, properties, items, enum: values, required } = schema
  const json: Record<string, JsonValue> = { type }
  if (description !== undefined) json.description = description
  if (properties !== undefined) {
    json.properties = mapMembers(properties, (property) => valueSchema(property, schemas, used))
  }
  if (items !== undefined) json.items = valueSchema(items, schemas, used)
  if (values !== undefined) json.enum = values
  if (required !== undefined && required.length > 0) json.required = required
  // Other members have no meaning in OpenTool and must not get one here.
  for (const [name, value] of Object.entries(schema)) if (name.startsWith('x-')) json[name] = value
  return json
}

/** The `$ref` to a definition; its name is escaped as a JSON Pointer token and as part of a URI. */
function definitionOf(reference: OpenToolReference, schemas: OpenToolSchemas, used: UsedSchemas): string {
  const name = referenceName(reference.$ref)
  const target = targetOf(schemas, reference)
  if (name === undefined || target === undefined) {
    const message = `\`schemas\` has no schema for ${describeValue(reference.$ref)}; pass \`schemas\`, or dereference first.`
    throw new OpenToolDocumentError([{ path: '', rule: 'OTS-21', level: 'error', message }])
  }
  used.set(name, target)
  return `#/$defs${encodeURI(childPointer('', name)).replaceAll('#', '%23').replaceAll('?', '%3F')}`
}

/** The description of the schema at the end of a chain of references. */
function descriptionBehind(reference: OpenToolReference, schemas: OpenToolSchemas): string | undefined {
  const seen = new Set<OpenToolSchema>()
  let schema: OpenToolSchema | undefined = reference
  while (schema !== undefined && isReference(schema)) {
    if (seen.has(schema)) return undefined
    seen.add(schema)
    schema = targetOf(schemas, schema)
  }
  return schema?.description
}
