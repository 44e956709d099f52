import type { DocumentNode } from './documents.ts'

/** How a body travels. */
export type BodyForm = 'json' | 'urlencoded' | 'multipart' | 'text' | 'binary'

const TEXT =
  /^(text\/.+|application\/(xml|javascript|ecmascript|yaml|x-yaml|toml|graphql|sql|x-ndjson|ndjson|jsonl|json-seq|x-www-form-urlencoded)|.+\+(xml|yaml))$/

/** Without parameters, in small letters. */
export function essenceOf(mediaType: string): string {
  return (mediaType.split(';')[0] ?? '').trim().toLowerCase()
}

export function isJson(mediaType: string): boolean {
  const essence = essenceOf(mediaType)
  return essence === 'application/json' || essence === 'text/json' || essence.endsWith('+json')
}

export function isTextual(mediaType: string): boolean {
  return isJson(mediaType) || TEXT.test(essenceOf(mediaType))
}

export function formOf(mediaType: string): BodyForm {
  const essence = essenceOf(mediaType)
  if (isJson(essence) || essence === '*/*' || essence === 'application/*') return 'json'
  if (essence === 'application/x-www-form-urlencoded') return 'urlencoded'
  if (essence.startsWith('multipart/')) return 'multipart'
  return isTextual(essence) ? 'text' : 'binary'
}

const PREFERENCE = [
  'json',
  'multipart',
  'urlencoded',
  'text',
  'binary',
] as const satisfies readonly BodyForm[]

/** The one that says most about its parts; of equals the first. */
export function preferred<Entry>(
  content: readonly Entry[],
  mediaTypeOf: (entry: Entry) => string,
): Entry | undefined {
  for (const form of PREFERENCE) {
    const found = content.find((entry) => formOf(mediaTypeOf(entry)) === form)
    if (found !== undefined) return found
  }
  return undefined
}

/** What is sent for a media type that stands for several. */
export function concrete(mediaType: string): string {
  return mediaType.includes('*') ? 'application/json' : mediaType
}

export type Method = 'get' | 'head' | 'options' | 'put' | 'post' | 'patch' | 'delete'
export type Dialect = '2.0' | '3.0' | '3.1'
export type ParameterIn = 'path' | 'query' | 'header' | 'cookie'

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
  readonly in: ParameterIn
  readonly required: boolean
  readonly description: string | undefined
  readonly schema: DocumentNode | undefined
  readonly encoding: Encoding
}

export interface RequestBody {
  readonly description: string | undefined
  readonly required: boolean
  readonly mediaType: string
  readonly schema: DocumentNode | undefined
  /** How single fields of a form are written, where the document says so. */
  readonly fields: ReadonlyMap<string, Partial<Encoding>>
}

export interface SuccessResponse {
  readonly description: string | undefined
  /** 204 and 205: these alone promise that there is no content. */
  readonly isEmpty: boolean
  /** Empty = not described, unless `isEmpty`. */
  readonly content: readonly { readonly mediaType: string; readonly schema: DocumentNode | undefined }[]
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
  readonly servers: readonly DocumentNode[]
}

/** Where one operation stands, and what it shares with its neighbours. */
export interface OperationNode {
  readonly method: Method
  readonly path: string
  readonly pathItem: DocumentNode
  readonly operation: DocumentNode
}
