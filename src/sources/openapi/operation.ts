import type { Located } from './located.ts'

export type Method = 'get' | 'head' | 'options' | 'put' | 'post' | 'patch' | 'delete'
export type Dialect = '2.0' | '3.0' | '3.1'
export type Place = 'path' | 'query' | 'header' | 'cookie'

export type Style = (typeof STYLES)[number]
export const STYLES = [
  'simple',
  'label',
  'matrix',
  'form',
  'spaceDelimited',
  'pipeDelimited',
  'deepObject',
  /** Swagger 2.0's `tsv`. */
  'tabDelimited',
] as const

/** How a value becomes text. */
export interface Encoding {
  readonly style: Style
  readonly explode: boolean
  readonly allowReserved: boolean
  /** Instead of a style: the value written in this media type. */
  readonly mediaType?: string
}

export interface Parameter {
  readonly name: string
  readonly in: Place
  readonly required: boolean
  readonly description: string | undefined
  readonly schema: Located | undefined
  readonly encoding: Encoding
}

export interface RequestBody {
  readonly description: string | undefined
  readonly required: boolean
  readonly mediaType: string
  readonly schema: Located | undefined
  /** How single fields of a form are written, where the document says so. */
  readonly fields: ReadonlyMap<string, Partial<Encoding>>
}

export interface SuccessResponse {
  readonly description: string | undefined
  readonly content: readonly { readonly mediaType: string; readonly schema: Located | undefined }[]
  readonly headers: readonly string[]
}

/** Every scheme of one alternative is needed, with these scopes. */
export type SecurityAlternative = ReadonlyMap<string, readonly string[]>

/** One operation of any version of OpenAPI, references to everything but schemas followed. */
export interface Operation {
  readonly method: Method
  /** What is called. */
  readonly path: string
  /** As the document writes it: some tell operations of one address apart by a fragment (`/files/{id}#rename`). */
  readonly written: string
  readonly operationId: string | undefined
  readonly summary: string | undefined
  readonly description: string | undefined
  readonly tags: readonly string[]
  readonly deprecated: boolean
  readonly parameters: readonly Parameter[]
  readonly body: RequestBody | undefined
  readonly responses: readonly SuccessResponse[]
  /** `undefined` = the document says nothing; an empty list or an empty alternative = none needed. */
  readonly security: readonly SecurityAlternative[] | undefined
  /** Of the operation, its path or the document: the nearest that has any. */
  readonly servers: readonly Located[]
}

/** Where one operation stands, and what it shares with its neighbours. */
export interface OperationPlace {
  readonly method: Method
  readonly path: string
  readonly pathItem: Located
  readonly operation: Located
}
