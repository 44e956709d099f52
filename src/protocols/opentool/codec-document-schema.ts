import {
  childPointer,
  describeValue,
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
  setMember,
} from '#core/json'
import {
  isOpenToolType,
  OPENTOOL_TYPES,
  type OpenToolReference,
  type OpenToolSchema,
  type OpenToolSchemas,
  type OpenToolType,
} from './codec-document.ts'
import { descriptionOf, extensionsOf, memberOf, type Reading } from './codec-document-fields.ts'

const KNOWN = ['type', 'description', 'properties', 'items', 'enum', 'required', '$ref']

/** Stands where a schema is wrong, so that the rest of the document is still read. */
const UNREADABLE: OpenToolSchema = { type: 'string' }

/** A schema and all schemas in it (OTS-13…17, OTS-20). */
export function readSchema(value: JsonValue, path: string, reading: Reading): OpenToolSchema {
  if (!isJsonObject(value)) {
    reading.findings.error(path, 'OTS-13', `A schema is an object, and this is ${describeValue(value)}.`)
    return UNREADABLE
  }
  const reference = memberOf(value, '$ref')
  if (reference !== undefined) return readReference(value, reference, path, reading)
  const type = readType(value, path, reading)
  const properties = readProperties(value, type, path, reading)
  return {
    type: type ?? 'string',
    ...descriptionOf(value, path, reading),
    ...(properties === undefined ? {} : { properties }),
    ...readItems(value, type, path, reading),
    ...readEnum(value, type, path, reading),
    ...readRequired(value, properties, path, reading),
    ...extensionsOf(value, KNOWN),
  }
}

/** A map of names to schemas; any name is data, `__proto__` too (OTS-26). */
export function readSchemas(value: JsonObject, path: string, reading: Reading): OpenToolSchemas {
  const schemas: Record<string, OpenToolSchema> = {}
  for (const [name, schema] of Object.entries(value)) {
    setMember(schemas, name, readSchema(schema, childPointer(path, name), reading))
  }
  return schemas
}

function readType(schema: JsonObject, path: string, { findings }: Reading): OpenToolType | undefined {
  const type = memberOf(schema, 'type')
  if (isOpenToolType(type)) return type
  findings.error(
    childPointer(path, 'type'),
    'OTS-13',
    `\`type\` is ${describeValue(type)}; write one of ${OPENTOOL_TYPES.join(', ')}.`,
  )
  return undefined
}

/** Keywords beside `$ref` that a reader could believe to be obeyed. */
const CHECKING = ['type', 'properties', 'items', 'enum', 'required']

function readReference(
  schema: JsonObject,
  reference: JsonValue,
  path: string,
  { findings, schemaNames }: Reading,
): OpenToolReference {
  const place = childPointer(path, '$ref')
  const name = typeof reference === 'string' ? referenceName(reference) : undefined
  if (name === undefined) {
    findings.error(
      place,
      'OTS-20',
      `The reference ${describeValue(reference)} has not the form "#/schemas/NAME"; other documents are not fetched.`,
    )
  } else if (!schemaNames.has(name)) {
    findings.error(place, 'OTS-21', `\`schemas\` has no ${describeValue(name)}.`)
  }
  for (const keyword of CHECKING) {
    if (memberOf(schema, keyword) === undefined) continue
    findings.warn(
      childPointer(path, keyword),
      'OTS-21',
      `\`${keyword}\` beside \`$ref\` is ignored: the schema it names holds alone.`,
    )
  }
  return { ...schema, $ref: typeof reference === 'string' ? reference : '' }
}

const REFERENCE = '#/schemas/'

/** Exactly three segments, nothing decoded (OTS-20). */
export function referenceName(reference: string): string | undefined {
  if (!reference.startsWith(REFERENCE) || reference.includes('/', REFERENCE.length)) return undefined
  return reference.slice(REFERENCE.length)
}

function readProperties(
  schema: JsonObject,
  type: OpenToolType | undefined,
  path: string,
  reading: Reading,
): OpenToolSchemas | undefined {
  const place = childPointer(path, 'properties')
  const value = memberOf(schema, 'properties')
  if (value === undefined) {
    if (type !== 'object') return undefined
    reading.findings.tolerate(
      place,
      'OTS-14',
      'An object has no `properties`; write `"properties": {}` if any member is meant.',
    )
    return {}
  }
  if (isJsonObject(value)) return readSchemas(value, place, reading)
  reading.findings.error(
    place,
    'OTS-14',
    `\`properties\` is ${describeValue(value)}; write an object of schemas.`,
  )
  return {}
}

function readItems(
  schema: JsonObject,
  type: OpenToolType | undefined,
  path: string,
  reading: Reading,
): { readonly items?: OpenToolSchema } {
  const place = childPointer(path, 'items')
  const value = memberOf(schema, 'items')
  if (value !== undefined) return { items: readSchema(value, place, reading) }
  if (type === 'array') {
    reading.findings.tolerate(place, 'OTS-15', 'An array has no `items`; write the schema of its items.')
  }
  return {}
}

function readEnum(
  schema: JsonObject,
  type: OpenToolType | undefined,
  path: string,
  { findings }: Reading,
): { readonly enum?: JsonArray } {
  const place = childPointer(path, 'enum')
  const values = memberOf(schema, 'enum')
  if (values === undefined) return {}
  if (!Array.isArray(values)) {
    findings.error(place, 'OTS-16', `\`enum\` is ${describeValue(values)}; write a list of values.`)
    return {}
  }
  if (values.length === 0) {
    findings.tolerate(place, 'OTS-16', 'An empty `enum` allows no value; list one or leave it out.')
    return {}
  }
  if (type === 'array' || type === 'object') {
    findings.warn(place, 'OTS-16', `\`enum\` beside "type": "${type}" is not understood by other readers.`)
  }
  for (const [index, value] of values.entries()) {
    if (value === null) {
      findings.warn(childPointer(place, index), 'OTS-16', 'null in an `enum` is no value of any type.')
    } else if (type !== undefined && !hasType(value, type)) {
      findings.error(
        childPointer(place, index),
        'OTS-16',
        `${describeValue(value)} does not match "type": "${type}".`,
      )
    }
  }
  return { enum: values }
}

/** `3.0` is an integer (OTS-43). */
export function hasType(value: JsonValue, type: OpenToolType): boolean {
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isJsonObject(value)
  return typeof value === type
}

function readRequired(
  schema: JsonObject,
  properties: OpenToolSchemas | undefined,
  path: string,
  { findings }: Reading,
): { readonly required?: readonly string[] } {
  const place = childPointer(path, 'required')
  const names = memberOf(schema, 'required')
  if (names === undefined) return {}
  if (!Array.isArray(names)) {
    findings.error(
      place,
      'OTS-17',
      `\`required\` of a schema is ${describeValue(names)}; write a list of property names.`,
    )
    return {}
  }
  const required: string[] = []
  for (const [index, name] of names.entries()) {
    if (typeof name !== 'string') {
      findings.error(childPointer(place, index), 'OTS-17', `${describeValue(name)} is no property name.`)
    } else {
      required.push(name)
      if (properties === undefined || !Object.hasOwn(properties, name)) {
        findings.warn(
          childPointer(place, index),
          'OTS-17',
          `${describeValue(name)} is required, but \`properties\` does not describe it.`,
        )
      }
    }
  }
  return { required }
}
