import { childPointer, describeValue, type JsonObject, type JsonValue } from '#kernel/base/json'

/*
 * The types of an OpenTool 1.1.0 document, its limits, and the findings that readers collect.
 * Used by all modules of this folder, by the client and by the OpenTool source.
 * Invariant: optional members of a read document are never null, and the number of findings is bounded.
 */

/** Shared state of reading one document. */
export interface Reading {
  readonly findings: FindingList
  /** Names that a `$ref` may use: only those of this document, never members of a prototype (OTS-21). */
  readonly schemaNames: ReadonlySet<string>
}

/** One object of a document while it is read: its members, and the findings about them. */
export class DocumentPart {
  readonly members: JsonObject
  readonly path: string
  readonly reading: Reading

  constructor(members: JsonObject, path: string, reading: Reading) {
    this.members = members
    this.path = path
    this.reading = reading
  }

  /** Returns a member; an explicit null in an optional field counts as absent (OTS-18). */
  get(name: string): JsonValue | undefined {
    return Object.hasOwn(this.members, name) ? (this.members[name] ?? undefined) : undefined
  }

  /** Reports a finding about the member that the steps lead to. */
  report(level: ReportLevel, rule: string, message: string, ...steps: (string | number)[]): void {
    this.reading.findings.report(level, steps.reduce(childPointer, this.path), rule, message)
  }

  /** Reports a member with a wrong value; `expected` states what to write instead. */
  refuse(name: string, rule: string, expected: string, level: ReportLevel = 'error'): void {
    this.report(level, rule, `\`${name}\` is ${describeValue(this.get(name))}; write ${expected}.`, name)
  }

  requiredText(name: string, rule: string): string {
    const value = this.get(name)
    if (typeof value === 'string') return value
    this.refuse(name, rule, 'a string')
    return ''
  }

  /** `description`, as an object to spread; must be a string if present (OTS-18). */
  description(): { readonly description?: string } {
    const value = this.get('description')
    if (typeof value === 'string') return { description: value }
    if (value !== undefined) this.refuse('description', 'OTS-18', 'a string or leave it out')
    return {}
  }

  /** Returns unknown members, which are ignored but kept for serialising (OTS-23). */
  extensions(known: readonly string[]): OpenToolExtensions {
    const others = Object.keys(this.members).filter((name) => !known.includes(name))
    if (others.length === 0) return NO_EXTENSIONS
    return Object.fromEntries(others.map((name) => [name, this.members[name] ?? null]))
  }
}

const NO_EXTENSIONS: OpenToolExtensions = Object.freeze({})

/** Applies `change` to every member. Any name is data, even `__proto__` (OTS-26). */
export function mapMembers<From, To>(
  members: Readonly<Record<string, From>>,
  change: (member: From, name: string) => To,
): Readonly<Record<string, To>> {
  return Object.fromEntries(Object.entries(members).map(([name, member]) => [name, change(member, name)]))
}

export interface DocumentFinding {
  /** JSON Pointer into the document; empty for the whole document. */
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
  /** Offset in UTF-16 code units, from 0. */
  readonly offset: number
  /** From 1. */
  readonly line: number
  /** From 1. */
  readonly column: number
}

/**
 * `strict` for documents that this server creates or serves; `lenient` for others, for which some rules become warnings with a
 * stated default.
 */
export type DocumentMode = 'strict' | 'lenient'

/** `repaired`: a violation that a lenient reader repairs with a default, and a strict reader treats as an error. */
type ReportLevel = DocumentFinding['level'] | 'repaired'

/** Maximum number of findings; a longer list would cost more memory than the document (OTS-26). */
const MAX_FINDINGS = 100_000

/** Collects findings without stopping, so that all findings are reported at once. */
export class FindingList {
  readonly mode: DocumentMode
  readonly #found: DocumentFinding[] = []
  /** The worst level of the findings beyond the limit. */
  #leftOut: DocumentFinding['level'] | undefined
  #errors = 0

  constructor(mode: DocumentMode) {
    this.mode = mode
  }

  report(level: ReportLevel, path: string, rule: string, message: string, position?: TextPosition): void {
    const isError = level === 'error' || (level === 'repaired' && this.mode === 'strict')
    if (isError) this.#errors += 1
    if (this.#found.length < MAX_FINDINGS) {
      this.#found.push({
        path,
        rule,
        level: isError ? 'error' : 'warning',
        message,
        ...(position && { position }),
      })
    } else if (isError) this.#leftOut = 'error'
    else this.#leftOut ??= 'warning'
  }

  get hasErrors(): boolean {
    return this.#errors > 0
  }

  all(): readonly DocumentFinding[] {
    const level = this.#leftOut
    if (level === undefined) return this.#found
    const message = `There are more than ${MAX_FINDINGS} findings; the others are left out.`
    return [...this.#found, { path: '', rule: 'OTS-26', level, message }]
  }
}

const MAX_SHOWN = 20

/** An error message: a heading, and the first problems. */
export function listProblems(heading: string, problems: readonly string[]): string {
  const lines = problems.slice(0, MAX_SHOWN).map((problem) => `  ${problem}`)
  const more = problems.length > MAX_SHOWN ? [`  and ${problems.length - MAX_SHOWN} more`] : []
  return [heading, ...lines, ...more].join('\n')
}

/** Thrown by `load` and `dereference`. It has every finding, including warnings. */
export class OpenToolDocumentError extends Error {
  override readonly name = 'OpenToolDocumentError'
  readonly findings: readonly DocumentFinding[]

  constructor(findings: readonly DocumentFinding[]) {
    const errors = findings.filter(({ level }) => level === 'error')
    const count = errors.length === 1 ? '1 error' : `${errors.length} errors`
    super(
      listProblems(
        `The OpenTool document has ${count}:`,
        errors.map(({ path, rule, message }) => `${path || '(document)'}: ${message} (${rule})`),
      ),
    )
    this.findings = findings
  }
}

/** Bounds the cost of reading a document, so that hostile documents fail early. */
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

/** Maximum depth of a schema with its references inlined; a document of this depth still loads. */
export const MAX_SCHEMA_DEPTH = 240

/** How much inlining references may add: this many characters, and a multiple of the written length. */
export const MAX_ADDED = { characters: 16 * 1024 * 1024, times: 4 }

/**
 * Base URL of a document's server, without a trailing slash. The specification leaves the base path open: a
 * URL without a path gets `/opentool`, any other URL is used unchanged. `undefined` if it is not an absolute
 * http or https URL.
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
 * Member of a function with the facts that Collet's other protocols list: names, safety tier and requirements. Other readers
 * ignore it (OTS-23).
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
  /** Absent if the function has no return value. */
  readonly return?: OpenToolReturn
  /** Event name → payload of the event; a field of the Dart SDK. */
  readonly stream?: Readonly<Record<string, OpenToolReturn>>
}

/** `schema` describes the value stored under `name` in the result, not the whole result. */
export interface OpenToolReturn extends OpenToolExtensions {
  readonly name: string
  readonly description?: string
  readonly schema: OpenToolSchema
}

export interface OpenToolParameter extends OpenToolReturn {
  readonly required: boolean
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

/** The types of values (OTS-13). */
export const OPENTOOL_TYPES = ['boolean', 'integer', 'number', 'string', 'array', 'object'] as const

/** Format version of the documents that this server writes. */
export const OPENTOOL_VERSION = '1.1.0'

export function isOpenToolType(value: unknown): value is OpenToolType {
  return OPENTOOL_TYPES.some((type) => type === value)
}

export function isReference(schema: OpenToolSchema): schema is OpenToolReference {
  return '$ref' in schema
}

/** True if a name is legal (OTS-07). Without the `m` flag `$` matches only the very end, so a trailing newline is refused. */
export function isFunctionName(name: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(name)
}
