import { copyJson, describeValue, isJsonObject, type JsonObject } from '#kernel/base/json'
import {
  DOCUMENT_LIMITS,
  type DocumentFinding,
  type DocumentLimits,
  type DocumentMode,
  DocumentPart,
  FindingList,
  type OpenToolDocument,
  OpenToolDocumentError,
  type OpenToolFunction,
  type OpenToolInfo,
  type OpenToolSchemas,
  type OpenToolServer,
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
    findings.report('error', '', 'OTS-01', `The value cannot be read: ${detail}.`)
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
  const { schemas } = root
  const schemaNames = new Set(isJsonObject(schemas) ? Object.keys(schemas) : [])
  const part = new DocumentPart(root, '', { findings, schemaNames })
  const document: OpenToolDocument = {
    opentool: readFormatVersion(part),
    info: readInfo(part),
    ...readServer(part),
    functions: readFunctions(part),
    ...readNamedSchemas(part),
    ...part.extensions(DOCUMENT),
  }
  checkReferences(document, findings)
  return { ...document, functions: keepFirstOfEachName(document.functions, findings) }
}

function readJson(input: unknown, findings: FindingList, limits: DocumentLimits): JsonObject | undefined {
  let value = input
  if (typeof input === 'string' || input instanceof Uint8Array) {
    if (input.length > limits.characters) {
      findings.report('error', '', 'OTS-26', `The document is longer than ${limits.characters} characters.`)
      return undefined
    }
    const parsed = parseDocumentText(input)
    if (!parsed.ok) {
      findings.report('error', '', 'OTS-01', parsed.message, parsed.position)
      return undefined
    }
    value = parsed.value
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    findings.report('error', '', 'OTS-01', `A document is an object, and this is ${describeValue(value)}.`)
    return undefined
  }
  const copied = copyJson(value, { maxValues: limits.values })
  if (copied.ok) return isJsonObject(copied.value) ? copied.value : undefined
  findings.report('error', copied.pointer, copied.tooLarge ? 'OTS-26' : 'OTS-01', copied.problem)
  return undefined
}

/** Accepts any string, because official samples still use 1.0.0 (OTS-02). */
function readFormatVersion(root: DocumentPart): string {
  const version = root.requiredText('opentool', 'OTS-02')
  const [, major] = /^(\d+)\.\d+\.\d+$/.exec(version) ?? []
  if (typeof root.get('opentool') === 'string' && (major === undefined || Number(major) > 1)) {
    const message = `The format version ${describeValue(version)} is unknown to this reader; 1.1.0 is the latest.`
    root.report('warning', 'OTS-02', message, 'opentool')
  }
  return version
}

function readInfo(root: DocumentPart): OpenToolInfo {
  const members = root.get('info')
  if (!isJsonObject(members)) {
    root.refuse('info', 'OTS-03', 'an object')
    return { title: '', version: '' }
  }
  const info = new DocumentPart(members, '/info', root.reading)
  return {
    title: info.requiredText('title', 'OTS-03'),
    ...info.description(),
    version: info.requiredText('version', 'OTS-03'),
    ...info.extensions(INFO),
  }
}

function readServer(root: DocumentPart): { readonly server?: OpenToolServer } {
  const members = root.get('server')
  if (members === undefined) return {}
  if (!isJsonObject(members)) {
    root.refuse('server', 'OTS-04', 'one object')
    return {}
  }
  const server = new DocumentPart(members, '/server', root.reading)
  const url = server.requiredText('url', 'OTS-04')
  if (typeof members.url === 'string' && !(/^https?:\/\//i.test(url) && URL.canParse(url))) {
    server.report('warning', 'OTS-04', `${describeValue(url)} is not an absolute http or https URL.`, 'url')
  }
  return { server: { url, ...server.description(), ...server.extensions(SERVER) } }
}

function readFunctions(root: DocumentPart): readonly OpenToolFunction[] {
  const functions = root.get('functions')
  if (Array.isArray(functions)) {
    return functions.map((value, index) => readFunction(value, `/functions/${index}`, root.reading))
  }
  root.refuse('functions', 'OTS-05', 'a list, empty for none')
  return []
}

function readNamedSchemas(root: DocumentPart): { readonly schemas?: OpenToolSchemas } {
  const schemas = root.get('schemas')
  if (isJsonObject(schemas)) return { schemas: readSchemas(schemas, '/schemas', root.reading) }
  if (schemas !== undefined) root.refuse('schemas', 'OTS-19', 'an object of schemas')
  return {}
}

/** Calls are dispatched by name, so only the first of two functions with the same name can be called (OTS-06). */
function keepFirstOfEachName(
  functions: readonly OpenToolFunction[],
  findings: FindingList,
): readonly OpenToolFunction[] {
  const names = new Set<string>()
  return functions.filter(({ name }, index) => {
    if (name === '' || !names.has(name)) return names.add(name)
    const message = `There are two functions ${describeValue(name)}; only the first can be called.`
    findings.report('repaired', `/functions/${index}/name`, 'OTS-06', message)
    return false
  })
}

type ParsedText =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly message: string; readonly position?: TextPosition }

const BOM = '\uFEFF'

/** Parses JSON text or its UTF-8 bytes; a byte order mark is skipped (OTS-01). */
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

/** Tokens that may follow at one position of a JSON text, with the characters that they may begin with. */
const EXPECTED = {
  value: /[^\]}:,]/,
  'value or ]': /[^}:,]/,
  name: /"/,
  'name or }': /["}]/,
  colon: /:/,
  'comma or end': /[,\]}]/,
}

const SPACE = /[ \t\n\r]*/y
const SCALAR = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.+-])/y
const UNESCAPED = /[ !#-[\]-\uffff]*/y
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y

/**
 * Offset of the first invalid character of a text that `JSON.parse` refused; the errors of
 * engines differ and often omit the position.
 */
export function findSyntaxError(text: string): number {
  const open: string[] = []
  let expected: keyof typeof EXPECTED = 'value'
  let at = skip(SPACE, text, 0)
  for (; at < text.length; at = skip(SPACE, text, at)) {
    const character = text.charAt(at)
    if (!EXPECTED[expected].test(character)) return at
    if (character === '{' || character === '[') {
      open.push(character)
      expected = character === '{' ? 'name or }' : 'value or ]'
    } else if (character === '}' || character === ']') {
      if (open.pop() !== (character === '}' ? '{' : '[')) return at
      expected = 'comma or end'
    } else if (character === ',') {
      if (open.length === 0) return at
      expected = open.at(-1) === '{' ? 'name' : 'value'
    } else if (character === ':') expected = 'value'
    else {
      const end = character === '"' ? endOfString(text, at) : skip(SCALAR, text, at)
      if (end === at || end < 0) return Math.abs(end)
      at = end
      expected = expected.startsWith('name') ? 'colon' : 'comma or end'
      continue
    }
    at += 1
  }
  return text.length
}

/** Offset after the closing quote; if negative, the negated offset of an invalid character. */
function endOfString(text: string, start: number): number {
  let at = skip(UNESCAPED, text, start + 1)
  for (let next = skip(ESCAPE, text, at); next > at; next = skip(ESCAPE, text, at)) {
    at = skip(UNESCAPED, text, next)
  }
  return text.charAt(at) === '"' ? at + 1 : -at
}

function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : at
}
