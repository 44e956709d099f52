import { childPointer, describeValue, type JsonObject, type JsonValue, setMember } from '#kernel/base/json'

/*
 * The types of an OpenTool 1.1.0 document, its limits, and the findings that readers collect.
 * Used by all modules of this folder, by the client and by the OpenTool source.
 * Invariant: optional members of a read document are never null, and the number of findings is bounded.
 */

/** Shared state of reading one document. */
export interface Reading {
  readonly findings: FindingList
  /** Names that a `$ref` may use: of this document only, nothing of a prototype (OTS-21). */
  readonly schemaNames: ReadonlySet<string>
}

/** Explicit null in an optional field equals absent (OTS-18). */
export function memberOf(object: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? (object[name] ?? undefined) : undefined
}

export function requiredText(
  object: JsonObject,
  name: string,
  path: string,
  rule: string,
  { findings }: Reading,
): string {
  const value = memberOf(object, name)
  if (typeof value === 'string') return value
  findings.error(childPointer(path, name), rule, `\`${name}\` is ${describeValue(value)}; write a string.`)
  return ''
}

/** `description`, as an object to spread; must be a string if present (OTS-18). */
export function descriptionOf(
  object: JsonObject,
  path: string,
  { findings }: Reading,
): { readonly description?: string } {
  const value = memberOf(object, 'description')
  if (value === undefined) return {}
  if (typeof value === 'string') return { description: value }
  findings.error(
    childPointer(path, 'description'),
    'OTS-18',
    `\`description\` is ${describeValue(value)}; write a string or leave it out.`,
  )
  return {}
}

/** Unknown members are ignored, and kept for serialising (OTS-23). */
export function extensionsOf(object: JsonObject, known: readonly string[]): OpenToolExtensions {
  let kept: Record<string, JsonValue> | undefined
  for (const name of Object.keys(object)) {
    if (known.includes(name)) continue
    kept ??= {}
    setMember(kept, name, object[name] ?? null)
  }
  return kept ?? NONE
}

const NONE: OpenToolExtensions = Object.freeze({})

export interface DocumentFinding {
  /** JSON Pointer into the document; empty for the whole of it. */
  readonly path: string
  /** The violated requirement, by its number in docs/internals/specs/opentool.md. */
  readonly rule: string
  /** A document with errors is not loaded. */
  readonly level: 'error' | 'warning'
  readonly message: string
  /** Location of a syntax error; only for text that does not parse. */
  readonly position?: TextPosition
}

export interface TextPosition {
  /** In UTF-16 code units, from 0. */
  readonly offset: number
  /** From 1. */
  readonly line: number
  /** From 1. */
  readonly column: number
}

/**
 * `strict` for documents that we author or serve; `lenient` for documents of others, where some rules become
 * warnings with a stated default.
 */
export type DocumentMode = 'strict' | 'lenient'

/** A longer list would cost more memory than the document (OTS-26). */
const MAX_FINDINGS = 100_000

/** Collects findings without stopping, so that all of them are reported at once. */
export class FindingList {
  readonly mode: DocumentMode
  readonly #found: DocumentFinding[] = []
  #leftOut: 'none' | 'warnings' | 'errors' = 'none'
  #errors = 0

  constructor(mode: DocumentMode) {
    this.mode = mode
  }

  error(path: string, rule: string, message: string): void {
    this.add({ path, rule, level: 'error', message })
  }

  warn(path: string, rule: string, message: string): void {
    this.add({ path, rule, level: 'warning', message })
  }

  /** A rule that a lenient reader repairs with a default (L). */
  tolerate(path: string, rule: string, message: string): void {
    this.add({ path, rule, level: this.mode === 'strict' ? 'error' : 'warning', message })
  }

  add(finding: DocumentFinding): void {
    if (finding.level === 'error') this.#errors += 1
    if (this.#found.length < MAX_FINDINGS) this.#found.push(finding)
    else if (finding.level === 'error') this.#leftOut = 'errors'
    else if (this.#leftOut === 'none') this.#leftOut = 'warnings'
  }

  get hasErrors(): boolean {
    return this.#errors > 0
  }

  all(): readonly DocumentFinding[] {
    if (this.#leftOut === 'none') return this.#found
    const level = this.#leftOut === 'errors' ? 'error' : 'warning'
    const message = `There are more than ${MAX_FINDINGS} findings; the others are left out.`
    return [...this.#found, { path: '', rule: 'OTS-26', level, message }]
  }
}

const MAX_SHOWN = 20

/** Thrown by `load` and `dereference`; carries every finding, warnings included. */
export class OpenToolDocumentError extends Error {
  override readonly name = 'OpenToolDocumentError'
  readonly findings: readonly DocumentFinding[]

  constructor(findings: readonly DocumentFinding[]) {
    const errors = findings.filter(({ level }) => level === 'error')
    const lines = errors
      .slice(0, MAX_SHOWN)
      .map(({ path, rule, message }) => `  ${path || '(document)'}: ${message} (${rule})`)
    const more = errors.length > MAX_SHOWN ? [`  and ${errors.length - MAX_SHOWN} more`] : []
    const count = errors.length === 1 ? '1 error' : `${errors.length} errors`
    super([`The OpenTool document has ${count}:`, ...lines, ...more].join('\n'))
    this.findings = findings
  }
}

/** Bounds the cost of reading a document; hostile ones fail early. */
export interface DocumentLimits {
  readonly characters: number
  /** Number of JSON values as written. */
  readonly values: number
}

/** Enough for 100 000 functions with about ten parameters each. */
export const DOCUMENT_LIMITS: DocumentLimits = {
  characters: 64 * 1024 * 1024,
  values: 10_000_000,
}

/** Levels of a schema with its references inlined; a document of this depth still loads. */
export const MAX_SCHEMA_DEPTH = 240

/** How much inlining references may add: this many characters, and a multiple of the written length. */
export const ADDED = { characters: 16 * 1024 * 1024, times: 4 }

/**
 * Base URL of a document's server, without a trailing slash. The specification leaves the base path open: a
 * URL without a path gets `/opentool`, any other is used unchanged. `undefined` if it is not an absolute http
 * or https URL.
 */
export function serverBaseUrl({ url }: OpenToolServer): string | undefined {
  if (!URL.canParse(url)) return undefined
  const { protocol, origin, pathname } = new URL(url)
  if (protocol !== 'http:' && protocol !== 'https:') return undefined
  return pathname === '/' ? `${origin}/opentool` : `${origin}${pathname.replace(/\/+$/, '')}`
}

/** Members that the specification does not define; they survive a round trip unchanged. */
export interface OpenToolExtensions {
  readonly [extension: `x-${string}`]: JsonValue
}

/**
 * Member of a function with the facts that our other protocols list: names, safety tier, requirements. Other
 * readers ignore it (OTS-23).
 */
export const FACTS_EXTENSION = 'x-collet'

/** An OpenTool 1.1.0 document whose members are checked and whose optional members are never null. */
export interface OpenToolDocument extends OpenToolExtensions {
  readonly opentool: string
  readonly info: OpenToolInfo
  readonly server?: OpenToolServer
  readonly functions: readonly OpenToolFunction[]
  readonly schemas?: OpenToolSchemas
}

export interface OpenToolInfo extends OpenToolExtensions {
  readonly title: string
  readonly description?: string
  /** Version of the document itself; need not be the server's. */
  readonly version: string
}

export interface OpenToolServer extends OpenToolExtensions {
  readonly url: string
  readonly description?: string
}

export interface OpenToolFunction extends OpenToolExtensions {
  readonly name: string
  readonly description: string
  readonly parameters: readonly OpenToolParameter[]
  /** Absent = no return value. */
  readonly return?: OpenToolReturn
  /** Event name → payload of the event; a field of the Dart SDK. */
  readonly stream?: Readonly<Record<string, OpenToolReturn>>
}

export interface OpenToolParameter extends OpenToolExtensions {
  readonly name: string
  readonly description?: string
  readonly schema: OpenToolSchema
  readonly required: boolean
}

/** `schema` describes the value stored under `name` in the result, not the whole result. */
export interface OpenToolReturn extends OpenToolExtensions {
  readonly name: string
  readonly description?: string
  readonly schema: OpenToolSchema
}

export type OpenToolSchemas = Readonly<Record<string, OpenToolSchema>>
export type OpenToolSchema = OpenToolValueSchema | OpenToolReference

/** Members beside `$ref` are ignored. */
export interface OpenToolReference {
  /** `#/schemas/NAME`. */
  readonly $ref: string
}

export interface OpenToolValueSchema extends OpenToolExtensions {
  readonly type: OpenToolType
  readonly description?: string
  /** Always present when `type` is `object`. */
  readonly properties?: OpenToolSchemas
  /** Absent in an array only if the document was read leniently; then any item is valid. */
  readonly items?: OpenToolSchema
  readonly enum?: readonly JsonValue[]
  readonly required?: readonly string[]
}

export type OpenToolType = (typeof OPENTOOL_TYPES)[number]

/** OTS-13. */
export const OPENTOOL_TYPES = ['boolean', 'integer', 'number', 'string', 'array', 'object'] as const

/** Format version of the documents that we write. */
export const OPENTOOL_VERSION = '1.1.0'

export function isOpenToolType(value: unknown): value is OpenToolType {
  return OPENTOOL_TYPES.some((type) => type === value)
}

export function isReference(schema: OpenToolSchema): schema is OpenToolReference {
  return '$ref' in schema
}

/** OTS-07. Without the `m` flag `$` matches only the very end, so a trailing newline is refused. */
export function isFunctionName(name: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(name)
}
