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
  isFunctionName,
  type OpenToolFunction,
  type OpenToolParameter,
  type OpenToolReturn,
  type OpenToolSchema,
} from './codec-document.ts'
import { descriptionOf, extensionsOf, memberOf, type Reading, requiredText } from './codec-document-fields.ts'
import { FindingList } from './codec-document-finding.ts'
import { readSchema } from './codec-document-schema.ts'

const FUNCTION = ['name', 'description', 'parameters', 'return', 'stream']
const PARAMETER = ['name', 'description', 'schema', 'required']
const RETURN = ['name', 'description', 'schema']

/** One member of `functions` (OTS-07…12). */
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
    required: readRequired(value, path, reading),
    ...extensionsOf(value, PARAMETER),
  }
}

function readRequired(value: JsonObject, path: string, { findings }: Reading): boolean {
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

/** A field of one SDK and not of the specification: never fatal, so a broken one is left out (OTS-23). */
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
