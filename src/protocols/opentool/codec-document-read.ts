import { childPointer, copyJson, describeValue, isJsonObject, type JsonObject } from '#kernel/base/json'
import {
  DOCUMENT_LIMITS,
  type DocumentFinding,
  type DocumentLimits,
  type DocumentMode,
  descriptionOf,
  extensionsOf,
  FindingList,
  memberOf,
  type OpenToolDocument,
  OpenToolDocumentError,
  type OpenToolFunction,
  type OpenToolInfo,
  type OpenToolSchemas,
  type OpenToolServer,
  type Reading,
  requiredText,
  type TextPosition,
} from './codec-document.ts'
import { checkReferences } from './codec-document-references.ts'
import { readFunction, readSchemas } from './codec-document-schema.ts'

/*
 * Reads and validates OpenTool documents from text, bytes or values, with a position for syntax errors.
 * Used by the client, the OpenTool source, the CLI and `fromOpenTool`; exported to users.
 * Invariant: `validate` and `readDocument` never throw, and limits bound the cost of hostile documents
 * (OTS-26).
 */

/** All findings about a document, given as text, UTF-8 bytes or a value; never throws. */
export function validate(input: unknown, options: ReadOptions = {}): readonly DocumentFinding[] {
  return readDocument(input, options).findings
}

/** The document, with nulls removed and the defaults of the mode filled in; throws one error with all findings. */
export function load(input: string | Uint8Array | object, options: ReadOptions = {}): OpenToolDocument {
  const { document, findings } = readDocument(input, options)
  if (document === undefined) throw new OpenToolDocumentError(findings)
  return document
}

export interface SerializeOptions {
  /** Spaces per level. Default 0: one line. */
  readonly indent?: number
}

/** JSON text that loads as an equal document. */
export function serialize(document: OpenToolDocument, { indent = 0 }: SerializeOptions = {}): string {
  return JSON.stringify(document, undefined, indent)
}

export interface ReadOptions {
  /** Default `strict`. */
  readonly mode?: DocumentMode
  readonly limits?: Partial<DocumentLimits>
}

/** The document, unless a finding is an error; findings are returned in both cases. */
export interface ReadDocument {
  readonly document: OpenToolDocument | undefined
  readonly findings: readonly DocumentFinding[]
}

const DOCUMENT = ['opentool', 'info', 'server', 'functions', 'schemas']
const INFO = ['title', 'description', 'version']
const SERVER = ['url', 'description']

/** Reads text, UTF-8 bytes or a value; never throws. */
export function readDocument(input: unknown, options: ReadOptions = {}): ReadDocument {
  const findings = new FindingList(options.mode ?? 'strict')
  const limits = { ...DOCUMENT_LIMITS, ...options.limits }
  try {
    const document = readRoot(input, findings, limits)
    return { document: findings.hasErrors ? undefined : document, findings: findings.all() }
  } catch (error) {
    // A value that is not JSON may throw from a getter or a proxy.
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
  const copied = copyJson(value, { maxValues: limits.values })
  if (copied.ok) return isJsonObject(copied.value) ? copied.value : undefined
  findings.error(copied.pointer, copied.tooLarge ? 'OTS-26' : 'OTS-01', copied.problem)
  return undefined
}

/** Any string loads, because official samples still use 1.0.0 (OTS-02). */
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

type ParsedText =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly message: string; readonly position?: TextPosition }

const BOM = '\uFEFF'

/** JSON text or its UTF-8 bytes; a byte order mark is skipped (OTS-01). */
function parseDocumentText(input: string | Uint8Array): ParsedText {
  const decoded = typeof input === 'string' ? input : decodeUtf8(input)
  if (decoded === undefined) return { ok: false, message: 'The bytes are not UTF-8.' }
  const text = decoded.startsWith(BOM) ? decoded.slice(1) : decoded
  try {
    return { ok: true, value: JSON.parse(text) }
  } catch {
    const position = positionAt(text, findSyntaxError(text))
    const found = describeCharacter(text, position.offset)
    const message = `Not JSON: line ${position.line}, column ${position.column} has ${found}.`
    return { ok: false, message, position }
  }
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

function positionAt(text: string, offset: number): TextPosition {
  let line = 1
  let lineStart = 0
  for (let end = text.indexOf('\n'); end !== -1 && end < offset; end = text.indexOf('\n', end + 1)) {
    line += 1
    lineStart = end + 1
  }
  return { offset, line, column: offset - lineStart + 1 }
}

function describeCharacter(text: string, offset: number): string {
  const point = text.codePointAt(offset)
  if (point === undefined) return 'the end of the text'
  return `an unexpected ${JSON.stringify(String.fromCodePoint(point))}`
}

/** The tokens that may follow at one position of a JSON text. */
type Expected = 'value' | 'value or ]' | 'name' | 'name or }' | 'colon' | 'comma or end'

const SPACE = /[ \t\n\r]*/y
const SCALAR = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.+-])/y
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y

/**
 * Offset of the first invalid character of a text that `JSON.parse` refused: engines word their errors
 * differently and often omit the position.
 */
export function findSyntaxError(text: string): number {
  const open: ('{' | '[')[] = []
  let expected: Expected = 'value'
  let at = skip(SPACE, text, 0)
  while (at < text.length) {
    const character = text.charAt(at)
    const next = step(character, expected, open)
    if (next === undefined) return at
    if (next === 'scalar') {
      const end = character === '"' ? endOfString(text, at) : skip(SCALAR, text, at)
      if (end === at) return at
      if (end < 0) return -end
      at = end
      expected = afterScalar(expected)
    } else {
      at += 1
      expected = next
    }
    at = skip(SPACE, text, at)
  }
  return text.length
}

function afterScalar(expected: Expected): Expected {
  return expected.startsWith('name') ? 'colon' : 'comma or end'
}

/** The state after a punctuation mark; `scalar` if the character must start one; `undefined` if it is invalid. */
function step(character: string, expected: Expected, open: ('{' | '[')[]): Expected | 'scalar' | undefined {
  switch (character) {
    case '{':
    case '[':
      if (expected !== 'value' && expected !== 'value or ]') return undefined
      open.push(character)
      return character === '{' ? 'name or }' : 'value or ]'
    case '}':
      if (expected !== 'name or }' && expected !== 'comma or end') return undefined
      return open.pop() === '{' ? 'comma or end' : undefined
    case ']':
      if (expected !== 'value or ]' && expected !== 'comma or end') return undefined
      return open.pop() === '[' ? 'comma or end' : undefined
    case ':':
      return expected === 'colon' ? 'value' : undefined
    case ',':
      if (expected !== 'comma or end' || open.length === 0) return undefined
      return open.at(-1) === '{' ? 'name' : 'value'
    default:
      if (expected === 'colon' || expected === 'comma or end') return undefined
      return character === '"' || expected.startsWith('value') ? 'scalar' : undefined
  }
}

/** Offset after the closing quote; if negative, the negated offset of an invalid character. */
function endOfString(text: string, start: number): number {
  let at = start + 1
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === 0x22) return at + 1
    if (code < 0x20) return -at
    const next = code === 0x5c ? skip(ESCAPE, text, at) : at + 1
    if (next === at) return -at
    at = next
  }
  return -text.length
}

function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : at
}
