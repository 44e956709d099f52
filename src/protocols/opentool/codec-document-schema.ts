import {
  childPointer,
  describeValue,
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
  setMember,
} from '#kernel/base/json'
import {
  descriptionOf,
  extensionsOf,
  FindingList,
  isFunctionName,
  isOpenToolType,
  memberOf,
  OPENTOOL_TYPES,
  type OpenToolFunction,
  type OpenToolParameter,
  type OpenToolReference,
  type OpenToolReturn,
  type OpenToolSchema,
  type OpenToolSchemas,
  type OpenToolType,
  type Reading,
  requiredText,
} from './codec-document.ts'

/*
 * Reads the functions, parameters, returns and schemas of an OpenTool document.
 * Used by `codec-document-read.ts`; `referenceName` and `hasType` also by the converters.
 * Invariant: every problem becomes a finding and reading continues, so that all of them are reported at once.
 */

const FUNCTION = ['name', 'description', 'parameters', 'return', 'stream']
const PARAMETER = ['name', 'description', 'schema', 'required']
const RETURN = ['name', 'description', 'schema']

/** Reads one member of `functions` (OTS-07…12). */
export function readFunction(value: JsonValue, path: string, reading: Reading): OpenToolFunction {
  if (!isJsonObject(value)) {
    reading.findings.error(path, 'OTS-05', `A function is an object, and this is ${describeValue(value)}.`)
    return { name: '', description: '', parameters: [] }
  }
  const returned = memberOf(value, 'return')
  const stream = readStream(value, path, reading)
  return {
    name: readName(value, path, reading),
    description: readDescription(value, path, reading),
    parameters: readParameters(value, path, reading),
    ...(returned === undefined
      ? {}
      : { return: readReturn(returned, childPointer(path, 'return'), reading) }),
    ...(stream === undefined ? {} : { stream }),
    ...extensionsOf(value, FUNCTION),
  }
}

function readName(value: JsonObject, path: string, reading: Reading): string {
  const name = requiredText(value, 'name', path, 'OTS-07', reading)
  if (typeof memberOf(value, 'name') === 'string' && !isFunctionName(name)) {
    reading.findings.tolerate(
      childPointer(path, 'name'),
      'OTS-07',
      `The name ${describeValue(name)} is not 1 to 64 characters of A-Z, a-z, 0-9, \`_\` and \`-\`.`,
    )
  }
  return name
}

function readDescription(value: JsonObject, path: string, reading: Reading): string {
  if (memberOf(value, 'description') !== undefined) {
    return requiredText(value, 'description', path, 'OTS-08', reading)
  }
  reading.findings.tolerate(
    childPointer(path, 'description'),
    'OTS-08',
    'A function has no `description`; say what it does.',
  )
  return ''
}

function readParameters(value: JsonObject, path: string, reading: Reading): readonly OpenToolParameter[] {
  const place = childPointer(path, 'parameters')
  const parameters = memberOf(value, 'parameters')
  if (Array.isArray(parameters)) return readEachParameter(parameters, place, reading)
  const message = `\`parameters\` is ${describeValue(parameters)}; write a list, empty for none.`
  if (parameters === undefined) reading.findings.tolerate(place, 'OTS-09', message)
  else reading.findings.error(place, 'OTS-09', message)
  return []
}

function readEachParameter(values: JsonArray, place: string, reading: Reading): readonly OpenToolParameter[] {
  const names = new Set<string>()
  return values.map((value, index) => {
    const path = childPointer(place, index)
    const parameter = readParameter(value, path, reading)
    if (parameter.name !== '' && names.has(parameter.name)) {
      reading.findings.error(
        childPointer(path, 'name'),
        'OTS-11',
        `The parameter ${describeValue(parameter.name)} is there twice, and arguments are sent by name.`,
      )
    }
    names.add(parameter.name)
    return parameter
  })
}

function readParameter(value: JsonValue, path: string, reading: Reading): OpenToolParameter {
  if (!isJsonObject(value)) {
    reading.findings.error(path, 'OTS-11', `A parameter is an object, and this is ${describeValue(value)}.`)
    return { name: '', schema: { type: 'string' }, required: false }
  }
  const name = requiredText(value, 'name', path, 'OTS-11', reading)
  if (memberOf(value, 'name') === '') {
    reading.findings.error(childPointer(path, 'name'), 'OTS-11', 'The name of a parameter is empty.')
  }
  return {
    name,
    ...descriptionOf(value, path, reading),
    schema: readSchemaMember(value, path, 'OTS-11', reading),
    required: readIsRequired(value, path, reading),
    ...extensionsOf(value, PARAMETER),
  }
}

function readIsRequired(value: JsonObject, path: string, { findings }: Reading): boolean {
  const required = memberOf(value, 'required')
  if (typeof required === 'boolean') return required
  const place = childPointer(path, 'required')
  const message = `\`required\` of a parameter is ${describeValue(required)}; write true or false.`
  if (required === undefined) findings.tolerate(place, 'OTS-11', message)
  else findings.error(place, 'OTS-11', message)
  return false
}

function readReturn(value: JsonValue, path: string, reading: Reading): OpenToolReturn {
  if (!isJsonObject(value)) {
    reading.findings.error(
      path,
      'OTS-12',
      `A return is an object or null, and this is ${describeValue(value)}.`,
    )
    return { name: '', schema: { type: 'string' } }
  }
  return {
    name: requiredText(value, 'name', path, 'OTS-12', reading),
    ...descriptionOf(value, path, reading),
    schema: readSchemaMember(value, path, 'OTS-12', reading),
    ...extensionsOf(value, RETURN),
  }
}

function readSchemaMember(value: JsonObject, path: string, rule: string, reading: Reading): OpenToolSchema {
  const place = childPointer(path, 'schema')
  const schema = memberOf(value, 'schema')
  if (schema !== undefined) return readSchema(schema, place, reading)
  reading.findings.error(place, rule, '`schema` is missing; write at least its `type`.')
  return { type: 'string' }
}

/** `stream` is a field of one SDK and not of the specification: never fatal, so an invalid one is dropped (OTS-23). */
function readStream(
  value: JsonObject,
  path: string,
  reading: Reading,
): Readonly<Record<string, OpenToolReturn>> | undefined {
  const stream = memberOf(value, 'stream')
  if (stream === undefined) return undefined
  const place = childPointer(path, 'stream')
  const findings = new FindingList(reading.findings.mode)
  const events: Record<string, OpenToolReturn> = {}
  if (isJsonObject(stream)) {
    for (const [name, event] of Object.entries(stream)) {
      setMember(events, name, readReturn(event, childPointer(place, name), { ...reading, findings }))
    }
  }
  if (isJsonObject(stream) && !findings.hasErrors) return events
  reading.findings.warn(place, 'OTS-23', '`stream` is not a map of event names to returns, and is ignored.')
  return undefined
}

const KNOWN = ['type', 'description', 'properties', 'items', 'enum', 'required', '$ref']

/** Replaces an invalid schema, so that the rest of the document is still read. */
const UNREADABLE: OpenToolSchema = { type: 'string' }

/** Reads a schema and its subschemas (OTS-13…17, OTS-20). */
function readSchema(value: JsonValue, path: string, reading: Reading): OpenToolSchema {
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

/** Reads a map of names to schemas; any name is data, `__proto__` too (OTS-26). */
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

/** Keywords beside `$ref` that an author may expect to be enforced. */
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

/** The name in `#/schemas/NAME`: exactly three segments, nothing decoded (OTS-20). */
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
  } else if (type !== undefined && type !== 'string') {
    findings.warn(
      place,
      'OTS-16',
      `OpenTool has \`enum\` for strings only; here it is beside "type": "${type}".`,
    )
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
