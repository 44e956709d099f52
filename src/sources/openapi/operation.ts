import type { DocumentNode } from './documents.ts'
import type { METHODS } from './options.ts'

/**
 * The model of an operation, the same for all versions of OpenAPI, and functions for media types. Every module that reads,
 * offers or calls an operation uses it. Invariant: the model does not depend on the version of its document.
 */

/** The forms of a body; earlier forms are preferred. */
export const BODY_FORMS = ['json', 'multipart', 'urlencoded', 'text', 'binary'] as const
export type BodyForm = (typeof BODY_FORMS)[number]

const TEXT =
  /^(text\/.+|application\/(xml|javascript|ecmascript|yaml|x-yaml|toml|graphql|sql|x-ndjson|ndjson|jsonl|json-seq|x-www-form-urlencoded)|.+\+(xml|yaml))$/

/** A media type without parameters, in lower case. */
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

/** The content in the most preferred form; the first one if several have that form. */
export function preferred<Content extends { readonly mediaType: string }>(
  contents: readonly Content[],
): Content | undefined {
  const byForm = Map.groupBy(contents, ({ mediaType }) => formOf(mediaType))
  return BODY_FORMS.flatMap((form) => byForm.get(form) ?? [])[0]
}

/** The media type to send: JSON in place of a wildcard. */
export function concrete(mediaType: string): string {
  return mediaType.includes('*') ? 'application/json' : mediaType
}

export type Method = (typeof METHODS)[number]

/** True for safe methods (RFC 9110 §9.2.1). */
export function isReading(method: Method): boolean {
  return method === 'get' || method === 'head' || method === 'options'
}

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

export interface Encoding {
  readonly style: Style
  readonly explode: boolean
  readonly allowReserved: boolean
  /** The media type in which the value is written; if set, `style` is not used. */
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
  /** Encodings of single fields of a form, if the document declares them. */
  readonly fields: ReadonlyMap<string, Partial<Encoding>>
}

export interface SuccessResponse {
  /** True for 204 and 205, which have no content. */
  readonly isEmpty: boolean
  /** An empty list means that the content is not described, unless `isEmpty`. */
  readonly content: readonly { readonly mediaType: string; readonly schema: DocumentNode | undefined }[]
  readonly headers: readonly string[]
}

/** The schemes of one alternative, all of which are needed, with their scopes. */
export type SecurityAlternative = ReadonlyMap<string, readonly string[]>

/** One operation of any version of OpenAPI, with all references but those to schemas resolved. */
export interface Operation {
  readonly method: Method
  readonly path: string
  /** The path as written in the document; some documents distinguish operations on one path by a fragment (`/files/{id}#rename`). */
  readonly written: string
  readonly operationId: string | undefined
  readonly summary: string | undefined
  readonly description: string | undefined
  readonly tags: readonly string[]
  readonly deprecated: boolean
  readonly parameters: readonly Parameter[]
  readonly body: RequestBody | undefined
  readonly responses: readonly SuccessResponse[]
  /** `undefined` if not declared; an empty list or an empty alternative means that no credential is needed. */
  readonly security: readonly SecurityAlternative[] | undefined
  /** The nearest declared servers: the operation's, its path's or the document's. */
  readonly servers: readonly DocumentNode[]
}

/** One operation in the document, and the path item that it shares with other operations. */
export interface OperationNode extends Pick<Operation, 'method' | 'path'> {
  readonly pathItem: DocumentNode
  readonly operation: DocumentNode
}
