import type { JsonValue } from '#core/json'

/** Members the specification does not know; they travel through a round trip unchanged (OTS-23). */
export interface OpenToolExtensions {
  readonly [extension: `x-${string}`]: JsonValue
}

/** Member of a function that tells what our other protocols tell too: names, danger, needs. Others pass over it (OTS-23). */
export const FACTS_EXTENSION = 'x-collet'

/** An OpenTool 1.1.0 document whose members are checked and whose optional members are never null. */
export interface OpenToolDocument extends OpenToolExtensions {
  /** Version of the document format. */
  readonly opentool: string
  readonly info: OpenToolInfo
  readonly server?: OpenToolServer
  readonly functions: readonly OpenToolFunction[]
  readonly schemas?: OpenToolSchemas
}

export interface OpenToolInfo extends OpenToolExtensions {
  readonly title: string
  readonly description?: string
  /** Version of the document itself; need not be the server's (OTS-03). */
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
  /** Absent = no return value (OTS-10). */
  readonly return?: OpenToolReturn
  /** Event name → what the event carries; a field of the Dart SDK (OTS-50). */
  readonly stream?: Readonly<Record<string, OpenToolReturn>>
}

export interface OpenToolParameter extends OpenToolExtensions {
  readonly name: string
  readonly description?: string
  readonly schema: OpenToolSchema
  readonly required: boolean
}

/** `schema` describes the value stored under `name` in the result, not the whole result (OTS-38). */
export interface OpenToolReturn extends OpenToolExtensions {
  readonly name: string
  readonly description?: string
  readonly schema: OpenToolSchema
}

export type OpenToolSchemas = Readonly<Record<string, OpenToolSchema>>
export type OpenToolSchema = OpenToolValueSchema | OpenToolReference

/** Whatever stands beside `$ref` is ignored (OTS-21). */
export interface OpenToolReference {
  /** `#/schemas/NAME`. */
  readonly $ref: string
}

export interface OpenToolValueSchema extends OpenToolExtensions {
  readonly type: OpenToolType
  readonly description?: string
  /** Always there when `type` is `object` (OTS-14). */
  readonly properties?: OpenToolSchemas
  /** Absent in an array only if the document was read leniently: any item (OTS-15). */
  readonly items?: OpenToolSchema
  readonly enum?: readonly JsonValue[]
  readonly required?: readonly string[]
}

export type OpenToolType = (typeof OPENTOOL_TYPES)[number]

/** OTS-13. */
export const OPENTOOL_TYPES = ['boolean', 'integer', 'number', 'string', 'array', 'object'] as const

/** Format version of the documents we write. */
export const OPENTOOL_VERSION = '1.1.0'

export function isOpenToolType(value: unknown): value is OpenToolType {
  return OPENTOOL_TYPES.some((type) => type === value)
}

export function isReference(schema: OpenToolSchema): schema is OpenToolReference {
  return '$ref' in schema
}

/** OTS-07. Without the `m` flag `$` is the very end, so a trailing newline does not slip past. */
export function isFunctionName(name: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(name)
}
