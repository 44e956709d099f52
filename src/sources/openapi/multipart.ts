import { randomUUID } from 'node:crypto'
import { ToolError } from '#kernel/base/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { BoundBody, BoundField } from './binding.ts'
import { essenceOf, isJson } from './operation.ts'
import { plainText } from './serialize.ts'

/**
 * Writes multipart bodies (RFC 7578, RFC 2046) for `request.ts`. `FormData` is not used, because it gives every part that has a
 * content type a `filename`. Invariant: only files have a `filename`.
 */

interface Part {
  readonly name: string
  readonly filename?: string
  /** `undefined` for a plain field of a form. */
  readonly contentType: string | undefined
  readonly bytes: Uint8Array
}

export interface EncodedBody {
  readonly body: string | Uint8Array<ArrayBuffer>
  readonly contentType: string
}

export function encodeMultipart(form: JsonObject, { mediaType, fields }: BoundBody): EncodedBody {
  const boundary = `collet-${randomUUID()}`
  const isForm = essenceOf(mediaType) === 'multipart/form-data'
  const parts = Object.entries(form).flatMap(([name, value]) =>
    value === null ? [] : partsOf(name, value, Object.hasOwn(fields, name) ? fields[name] : undefined),
  )
  // In other multipart types the first part is the root, which describes the files after it (RFC 2387).
  const ordered = isForm ? parts : [...parts.filter((part) => !isFile(part)), ...parts.filter(isFile)]
  const chunks = ordered.flatMap((part) => [
    Buffer.from(`--${boundary}\r\n${headersOf(part, isForm)}\r\n\r\n`),
    part.bytes,
    Buffer.from('\r\n'),
  ])
  const declared = isForm ? 'multipart/form-data' : mediaType.replaceAll(/;\s*boundary=[^;]*/gi, '')
  return {
    body: Buffer.concat([...chunks, Buffer.from(`--${boundary}--\r\n`)]),
    contentType: `${declared}; boundary=${boundary}`,
  }
}

function isFile({ filename }: Part): boolean {
  return filename !== undefined
}

/** The parts of a field: each item of a list is a part with the same name, unless the document declares the list as one JSON part. */
function partsOf(name: string, value: JsonValue, field: BoundField | undefined): readonly Part[] {
  const isWholeJson = field?.encoding.mediaType !== undefined && isJson(field.encoding.mediaType)
  const items = Array.isArray(value) && !isWholeJson ? value : [value]
  return items.map((item) =>
    field?.file === true ? filePart(name, item, field) : fieldPart(name, item, field),
  )
}

function fieldPart(name: string, value: JsonValue, field: BoundField | undefined): Part {
  const declared = definite(field?.encoding.mediaType)
  const isCollection = typeof value === 'object' && value !== null
  const contentType = declared ?? (isCollection ? 'application/json' : undefined)
  const isJsonText = contentType !== undefined && isJson(contentType)
  return { name, contentType, bytes: Buffer.from(isJsonText ? JSON.stringify(value) : plainText(value)) }
}

function filePart(name: string, value: JsonValue, field: BoundField): Part {
  const { base64, filename, mediaType } = isJsonObject(value) ? value : { base64: value }
  const declared = definite(field.encoding.mediaType) ?? 'application/octet-stream'
  return {
    name,
    filename: typeof filename === 'string' ? filename : name,
    contentType: typeof mediaType === 'string' ? mediaType : declared,
    bytes: readBase64(base64, name),
  }
}

/** The media type; `undefined` for a wildcard such as `image/*`, which cannot be sent. */
function definite(mediaType: string | undefined): string | undefined {
  return mediaType?.includes('*') === true ? undefined : mediaType
}

function headersOf({ name, filename, contentType }: Part, isForm: boolean): string {
  const kind = isForm ? 'form-data' : filename === undefined ? 'inline' : 'attachment'
  const type = contentType ?? (isForm ? undefined : 'text/plain; charset=utf-8')
  return [
    `Content-Disposition: ${kind}; name="${quoted(name)}"${filename === undefined ? '' : `; filename="${quoted(filename)}"`}`,
    ...(type === undefined ? [] : [`Content-Type: ${type.replaceAll(/[^\t\x20-\x7e]/g, '')}`]),
  ].join('\r\n')
}

/** Escapes names as browsers do in forms (WHATWG, multipart/form-data encoding algorithm). */
function quoted(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/\r\n|\r|\n/g, '%0D%0A')
    .replaceAll('"', '%22')
}

/** Decodes base64 strictly, because a lenient decoder would skip characters and send different bytes. */
export function readBase64(value: JsonValue | undefined, name: string): Uint8Array<ArrayBuffer> {
  const text = typeof value === 'string' ? value.replaceAll(/\s/g, '') : undefined
  const isBase64 =
    text !== undefined && /^[A-Za-z0-9+/_-]*={0,2}$/.test(text) && text.replace(/=+$/, '').length % 4 !== 1
  if (!isBase64) throw new ToolError(`"${name}" must be base64.`)
  return new Uint8Array(Buffer.from(text, 'base64'))
}
