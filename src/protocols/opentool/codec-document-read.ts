import { childPointer, copyJson, describeValue, isJsonObject, type JsonObject } from '#core/json'
import type {
  OpenToolDocument,
  OpenToolFunction,
  OpenToolInfo,
  OpenToolSchemas,
  OpenToolServer,
} from './codec-document.ts'
import { descriptionOf, extensionsOf, memberOf, type Reading, requiredText } from './codec-document-fields.ts'
import { type DocumentFinding, type DocumentMode, FindingList } from './codec-document-finding.ts'
import { readFunction } from './codec-document-function.ts'
import { DOCUMENT_LIMITS, type DocumentLimits } from './codec-document-limits.ts'
import { checkReferences } from './codec-document-references.ts'
import { readSchemas } from './codec-document-schema.ts'
import { parseDocumentText } from './codec-document-text.ts'

export interface ReadOptions {
  /** `strict` unless told. */
  readonly mode?: DocumentMode
  readonly limits?: Partial<DocumentLimits>
}

/** The document, unless a finding is an error; findings also for a document that was read. */
export interface ReadDocument {
  readonly document: OpenToolDocument | undefined
  readonly findings: readonly DocumentFinding[]
}

const DOCUMENT = ['opentool', 'info', 'server', 'functions', 'schemas']
const INFO = ['title', 'description', 'version']
const SERVER = ['url', 'description']

/** Reads text, UTF-8 bytes or a value; never throws, whatever it is given (OTS-25). */
export function readDocument(input: unknown, options: ReadOptions = {}): ReadDocument {
  const findings = new FindingList(options.mode ?? 'strict')
  const limits = { ...DOCUMENT_LIMITS, ...options.limits }
  try {
    const document = readRoot(input, findings, limits)
    return { document: findings.hasErrors ? undefined : document, findings: findings.all() }
  } catch (error) {
    // A value that is no JSON may throw from a getter or a proxy.
    const detail = error instanceof Error ? error.message : 'unknown'
    findings.error('', 'OTS-01', `The value cannot be read: ${detail}.`)
    return { document: undefined, findings: findings.all() }
  }
}

function readRoot(
  input: unknown,
  findings: FindingList,
  limits: DocumentLimits,
): OpenToolDocument | undefined {
  const root = readJson(input, findings, limits)
  if (root === undefined) return undefined
  const schemas = memberOf(root, 'schemas')
  const reading: Reading = {
    findings,
    schemaNames: new Set(isJsonObject(schemas) ? Object.keys(schemas) : []),
  }
  const document: OpenToolDocument = {
    opentool: readFormatVersion(root, reading),
    info: readInfo(root, reading),
    ...readServer(root, reading),
    functions: readFunctions(root, reading),
    ...readNamedSchemas(root, reading),
    ...extensionsOf(root, DOCUMENT),
  }
  checkReferences(document, findings)
  return { ...document, functions: keepFirstOfEachName(document.functions, findings) }
}

function readJson(input: unknown, findings: FindingList, limits: DocumentLimits): JsonObject | undefined {
  let value = input
  if (typeof input === 'string' || input instanceof Uint8Array) {
    if (input.length > limits.characters) {
      findings.error('', 'OTS-26', `The document is longer than ${limits.characters} characters.`)
      return undefined
    }
    const parsed = parseDocumentText(input)
    if (!parsed.ok) {
      const { message, position } = parsed
      findings.add({ path: '', rule: 'OTS-01', level: 'error', message, ...(position && { position }) })
      return undefined
    }
    value = parsed.value
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    findings.error('', 'OTS-01', `A document is an object, and this is ${describeValue(value)}.`)
    return undefined
  }
  const copied = copyJson(value, { mostValues: limits.values })
  if (copied.ok) return isJsonObject(copied.value) ? copied.value : undefined
  findings.error(copied.pointer, copied.tooLarge ? 'OTS-26' : 'OTS-01', copied.problem)
  return undefined
}

/** Any string loads, because official samples still say 1.0.0 (OTS-02). */
function readFormatVersion(root: JsonObject, reading: Reading): string {
  const version = requiredText(root, 'opentool', '', 'OTS-02', reading)
  const [, major] = /^(\d+)\.\d+\.\d+$/.exec(version) ?? []
  if (typeof root.opentool === 'string' && (major === undefined || Number(major) > 1)) {
    reading.findings.warn(
      '/opentool',
      'OTS-02',
      `The format version ${describeValue(version)} is not one this reader knows; 1.1.0 is the latest.`,
    )
  }
  return version
}

function readInfo(root: JsonObject, reading: Reading): OpenToolInfo {
  const info = memberOf(root, 'info')
  if (!isJsonObject(info)) {
    reading.findings.error('/info', 'OTS-03', `\`info\` is ${describeValue(info)}; write an object.`)
    return { title: '', version: '' }
  }
  return {
    title: requiredText(info, 'title', '/info', 'OTS-03', reading),
    ...descriptionOf(info, '/info', reading),
    version: requiredText(info, 'version', '/info', 'OTS-03', reading),
    ...extensionsOf(info, INFO),
  }
}

function readServer(root: JsonObject, reading: Reading): { readonly server?: OpenToolServer } {
  const server = memberOf(root, 'server')
  if (server === undefined) return {}
  if (!isJsonObject(server)) {
    reading.findings.error('/server', 'OTS-04', `\`server\` is ${describeValue(server)}; write one object.`)
    return {}
  }
  const url = requiredText(server, 'url', '/server', 'OTS-04', reading)
  if (typeof server.url === 'string' && !isHttpUrl(url)) {
    reading.findings.warn('/server/url', 'OTS-04', `${describeValue(url)} is no absolute http or https URL.`)
  }
  return {
    server: { url, ...descriptionOf(server, '/server', reading), ...extensionsOf(server, SERVER) },
  }
}

function isHttpUrl(text: string): boolean {
  return /^https?:\/\//i.test(text) && URL.canParse(text)
}

function readFunctions(root: JsonObject, reading: Reading): readonly OpenToolFunction[] {
  const functions = memberOf(root, 'functions')
  if (Array.isArray(functions)) {
    return functions.map((value, index) => readFunction(value, childPointer('/functions', index), reading))
  }
  reading.findings.error(
    '/functions',
    'OTS-05',
    `\`functions\` is ${describeValue(functions)}; write a list, empty for none.`,
  )
  return []
}

function readNamedSchemas(root: JsonObject, reading: Reading): { readonly schemas?: OpenToolSchemas } {
  const schemas = memberOf(root, 'schemas')
  if (schemas === undefined) return {}
  if (isJsonObject(schemas)) return { schemas: readSchemas(schemas, '/schemas', reading) }
  reading.findings.error(
    '/schemas',
    'OTS-19',
    `\`schemas\` is ${describeValue(schemas)}; write an object of schemas.`,
  )
  return {}
}

/** Calls are dispatched by name, so of two functions with one name only the first can be called (OTS-06). */
function keepFirstOfEachName(
  functions: readonly OpenToolFunction[],
  findings: FindingList,
): readonly OpenToolFunction[] {
  const names = new Set<string>()
  return functions.filter(({ name }, index) => {
    if (name === '' || !names.has(name)) return names.add(name)
    findings.tolerate(
      `/functions/${index}/name`,
      'OTS-06',
      `There are two functions ${describeValue(name)}; only the first can be called.`,
    )
    return false
  })
}
