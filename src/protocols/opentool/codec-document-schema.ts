import {
  childPointer,
  describeValue,
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
} from '#kernel/base/json'
import {
  DocumentPart,
  FindingList,
  isFunctionName,
  isOpenToolType,
  mapMembers,
  OPENTOOL_TYPES,
  type OpenToolFunction,
  type OpenToolParameter,
  type OpenToolReference,
  type OpenToolReturn,
  type OpenToolSchema,
  type OpenToolSchemas,
  type OpenToolType,
  type Reading,
} from './codec-document.ts'

/*
 * Reads the functions, parameters, returns and schemas of an OpenTool document.
 * Used by `codec-document-read.ts`; `referenceName` and `hasType` also by the converters.
 * Invariant: every problem becomes a finding and reading continues, so that all problems are reported at once.
 */

const FUNCTION = ['name', 'description', 'parameters', 'return', 'stream']
const PARAMETER = ['name', 'description', 'schema', 'required']
const RETURN = ['name', 'description', 'schema']

/** Reads one member of `functions` (OTS-07…12). */
export function readFunction(value: JsonValue, path: string, reading: Reading): OpenToolFunction {
  const part = readPart(value, path, reading, 'OTS-05', 'A function is an object')
  if (part === undefined) return { name: '', description: '', parameters: [] }
  const returned = part.get('return')
  const stream = readStream(part)
  return {
    name: readName(part),
    description: readDescription(part),
    parameters: readParameters(part),
    ...(returned === undefined ? {} : { return: readReturn(returned, `${path}/return`, reading) }),
    ...(stream === undefined ? {} : { stream }),
    ...part.extensions(FUNCTION),
  }
}

/** Reads an object; any other value is reported. */
function readPart(
  value: JsonValue,
  path: string,
  reading: Reading,
  rule: string,
  expected: string,
): DocumentPart | undefined {
  if (isJsonObject(value)) return new DocumentPart(value, path, reading)
  reading.findings.report('error', path, rule, `${expected}, and this is ${describeValue(value)}.`)
  return undefined
}

function readName(part: DocumentPart): string {
  const name = part.requiredText('name', 'OTS-07')
  if (typeof part.get('name') === 'string' && !isFunctionName(name)) {
    const message = `The name ${describeValue(name)} is not 1 to 64 characters of A-Z, a-z, 0-9, \`_\` and \`-\`.`
    part.report('repaired', 'OTS-07', message, 'name')
  }
  return name
}

function readDescription(part: DocumentPart): string {
  if (part.get('description') !== undefined) return part.requiredText('description', 'OTS-08')
  part.report('repaired', 'OTS-08', 'A function has no `description`; describe what it does.', 'description')
  return ''
}

function readParameters(part: DocumentPart): readonly OpenToolParameter[] {
  const parameters = part.get('parameters')
  if (!Array.isArray(parameters)) {
    const level = parameters === undefined ? 'repaired' : 'error'
    part.refuse('parameters', 'OTS-09', 'a list, empty for none', level)
    return []
  }
  const names = new Set<string>()
  return parameters.map((value, index) => {
    const parameter = readParameter(value, `${part.path}/parameters/${index}`, part.reading)
    if (parameter.name !== '' && names.has(parameter.name)) {
      const message = `The parameter ${describeValue(parameter.name)} appears twice, and arguments are sent by name.`
      part.report('error', 'OTS-11', message, 'parameters', index, 'name')
    }
    names.add(parameter.name)
    return parameter
  })
}

function readParameter(value: JsonValue, path: string, reading: Reading): OpenToolParameter {
  const part = readPart(value, path, reading, 'OTS-11', 'A parameter is an object')
  if (part === undefined) return { name: '', schema: UNREADABLE, required: false }
  const name = part.requiredText('name', 'OTS-11')
  if (part.get('name') === '') part.report('error', 'OTS-11', 'The name of a parameter is empty.', 'name')
  return {
    name,
    ...part.description(),
    schema: readSchemaMember(part, 'OTS-11'),
    required: readIsRequired(part),
    ...part.extensions(PARAMETER),
  }
}

function readIsRequired(part: DocumentPart): boolean {
  const required = part.get('required')
  if (typeof required === 'boolean') return required
  part.refuse('required', 'OTS-11', 'true or false', required === undefined ? 'repaired' : 'error')
  return false
}

function readReturn(value: JsonValue, path: string, reading: Reading): OpenToolReturn {
  const part = readPart(value, path, reading, 'OTS-12', 'A return is an object or null')
  if (part === undefined) return { name: '', schema: UNREADABLE }
  return {
    name: part.requiredText('name', 'OTS-12'),
    ...part.description(),
    schema: readSchemaMember(part, 'OTS-12'),
    ...part.extensions(RETURN),
  }
}

function readSchemaMember(part: DocumentPart, rule: string): OpenToolSchema {
  const schema = part.get('schema')
  if (schema !== undefined) return readSchema(schema, `${part.path}/schema`, part.reading)
  part.report('error', rule, '`schema` is missing; write at least its `type`.', 'schema')
  return UNREADABLE
}

/** Reads `stream`, a field of one SDK and not of the specification, so an invalid value is dropped and not fatal (OTS-23). */
function readStream(part: DocumentPart): OpenToolFunction['stream'] {
  const stream = part.get('stream')
  if (stream === undefined) return undefined
  if (isJsonObject(stream)) {
    const reading = { ...part.reading, findings: new FindingList(part.reading.findings.mode) }
    const path = `${part.path}/stream`
    const events = mapMembers(stream, (event, name) => readReturn(event, childPointer(path, name), reading))
    if (!reading.findings.hasErrors) return events
  }
  const message = '`stream` is not a map of event names to returns, and is ignored.'
  part.report('warning', 'OTS-23', message, 'stream')
  return undefined
}

const KNOWN_KEYWORDS = ['type', 'description', 'properties', 'items', 'enum', 'required', '$ref']

/** Replaces an invalid schema, so that the rest of the document is still read. */
const UNREADABLE: OpenToolSchema = { type: 'string' }

/** Reads a schema and its subschemas (OTS-13…17, OTS-20). */
function readSchema(value: JsonValue, path: string, reading: Reading): OpenToolSchema {
  const part = readPart(value, path, reading, 'OTS-13', 'A schema is an object')
  if (part === undefined) return UNREADABLE
  const reference = part.get('$ref')
  if (reference !== undefined) return readReference(part, reference)
  const type = readType(part)
  const properties = readProperties(part, type)
  return {
    type: type ?? 'string',
    ...part.description(),
    ...(properties === undefined ? {} : { properties }),
    ...readItems(part, type),
    ...readEnum(part, type),
    ...readRequired(part, properties),
    ...part.extensions(KNOWN_KEYWORDS),
  }
}

/** Reads a map of names to schemas. */
export function readSchemas(value: JsonObject, path: string, reading: Reading): OpenToolSchemas {
  return mapMembers(value, (schema, name) => readSchema(schema, childPointer(path, name), reading))
}

function readType(part: DocumentPart): OpenToolType | undefined {
  const type = part.get('type')
  if (isOpenToolType(type)) return type
  part.refuse('type', 'OTS-13', `one of ${OPENTOOL_TYPES.join(', ')}`)
  return undefined
}

/** Keywords that an author may expect to be enforced beside `$ref`. */
const CHECKING_KEYWORDS = ['type', 'properties', 'items', 'enum', 'required']

function readReference(part: DocumentPart, reference: JsonValue): OpenToolReference {
  const name = typeof reference === 'string' ? referenceName(reference) : undefined
  if (name === undefined) {
    const message = `The reference ${describeValue(reference)} does not have the form "#/schemas/NAME"; other documents are not fetched.`
    part.report('error', 'OTS-20', message, '$ref')
  } else if (!part.reading.schemaNames.has(name)) {
    part.report('error', 'OTS-21', `\`schemas\` has no ${describeValue(name)}.`, '$ref')
  }
  for (const keyword of CHECKING_KEYWORDS) {
    if (part.get(keyword) === undefined) continue
    const message = `\`${keyword}\` beside \`$ref\` is ignored: only the referenced schema applies.`
    part.report('warning', 'OTS-21', message, keyword)
  }
  return { ...part.members, $ref: typeof reference === 'string' ? reference : '' }
}

const REFERENCE = '#/schemas/'

/** The name in `#/schemas/NAME`: exactly three segments, nothing decoded (OTS-20). */
export function referenceName(reference: string): string | undefined {
  if (!reference.startsWith(REFERENCE) || reference.includes('/', REFERENCE.length)) return undefined
  return reference.slice(REFERENCE.length)
}

function readProperties(part: DocumentPart, type: OpenToolType | undefined): OpenToolSchemas | undefined {
  const value = part.get('properties')
  if (isJsonObject(value)) return readSchemas(value, `${part.path}/properties`, part.reading)
  if (value !== undefined) part.refuse('properties', 'OTS-14', 'an object of schemas')
  else if (type !== 'object') return undefined
  else {
    const message = 'An object has no `properties`; write `"properties": {}` if any members are allowed.'
    part.report('repaired', 'OTS-14', message, 'properties')
  }
  return {}
}

function readItems(part: DocumentPart, type: OpenToolType | undefined): { readonly items?: OpenToolSchema } {
  const value = part.get('items')
  if (value !== undefined) return { items: readSchema(value, `${part.path}/items`, part.reading) }
  if (type === 'array') {
    part.report('repaired', 'OTS-15', 'An array has no `items`; write the schema of its items.', 'items')
  }
  return {}
}

function readEnum(part: DocumentPart, type: OpenToolType | undefined): { readonly enum?: JsonArray } {
  const values = part.get('enum')
  if (values === undefined) return {}
  if (!Array.isArray(values)) {
    part.refuse('enum', 'OTS-16', 'a list of values')
    return {}
  }
  if (values.length === 0) {
    part.report('repaired', 'OTS-16', 'An empty `enum` allows no value; list one or leave it out.', 'enum')
    return {}
  }
  if (type === 'array' || type === 'object') {
    const message = `\`enum\` beside "type": "${type}" is not understood by other readers.`
    part.report('warning', 'OTS-16', message, 'enum')
  } else if (type !== undefined && type !== 'string') {
    const message = `OpenTool has \`enum\` for strings only; here it is beside "type": "${type}".`
    part.report('warning', 'OTS-16', message, 'enum')
  }
  for (const [index, value] of values.entries()) {
    if (value === null) {
      part.report('warning', 'OTS-16', 'null in an `enum` matches no type.', 'enum', index)
    } else if (type !== undefined && !hasType(value, type)) {
      const message = `${describeValue(value)} does not match "type": "${type}".`
      part.report('error', 'OTS-16', message, 'enum', index)
    }
  }
  return { enum: values }
}

/** True if a value has the type; `3.0` is an integer (OTS-43). */
export function hasType(value: JsonValue, type: OpenToolType): boolean {
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isJsonObject(value)
  return typeof value === type
}

function readRequired(
  part: DocumentPart,
  properties: OpenToolSchemas = {},
): { readonly required?: readonly string[] } {
  const names = part.get('required')
  if (names === undefined) return {}
  if (!Array.isArray(names)) {
    part.refuse('required', 'OTS-17', 'a list of property names')
    return {}
  }
  const required = names.filter((name, index): name is string => {
    if (typeof name !== 'string') {
      part.report('error', 'OTS-17', `${describeValue(name)} is not a property name.`, 'required', index)
    } else if (!Object.hasOwn(properties, name)) {
      const message = `${describeValue(name)} is required, but \`properties\` does not describe it.`
      part.report('warning', 'OTS-17', message, 'required', index)
    }
    return typeof name === 'string'
  })
  return { required }
}
