import { ToolError } from '#core/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { BoundBody, BoundField } from './binding.ts'
import { isJson } from './media-type.ts'
import { encodeReserved, encodeStrictly, type Pair, plainText, serializeAsPairs } from './serialize-value.ts'

export interface EncodedBody {
  readonly body: string | Uint8Array<ArrayBuffer> | FormData
  /** `undefined` where the form itself knows its boundary. */
  readonly contentType: string | undefined
}

const ENCODERS = {
  json: (value, { mediaType }) => ({ body: JSON.stringify(value), contentType: mediaType }),
  text: (value, { mediaType }) => ({ body: plainText(value), contentType: mediaType }),
  binary: (value, { mediaType, property }) => ({ body: readBase64(value, property), contentType: mediaType }),
  urlencoded: (value, { mediaType, fields }) => ({
    body: encodeForm(asObject(value), fields),
    contentType: mediaType,
  }),
  multipart: (value, { fields }) => ({
    body: encodeMultipart(asObject(value), fields),
    contentType: undefined,
  }),
} as const satisfies Record<BoundBody['form'], (value: JsonValue, body: BoundBody) => EncodedBody>

export function encodeBody(body: BoundBody, value: JsonValue): EncodedBody {
  return ENCODERS[body.form](value, body)
}

function asObject(value: JsonValue): JsonObject {
  if (isJsonObject(value)) return value
  throw new ToolError('The body is a form: give an object of its fields.')
}

function fieldOf(fields: Readonly<Record<string, BoundField>>, name: string): BoundField | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined
}

function encodeForm(form: JsonObject, fields: BoundBody['fields']): string {
  return Object.entries(form)
    .flatMap(([name, value]) => (value === null ? [] : formPairs(name, value, fieldOf(fields, name))))
    .map((pair) => pair.join('='))
    .join('&')
}

/** A list repeats its name and an object is JSON, unless the document gives a style. */
function formPairs(name: string, value: JsonValue, field: BoundField | undefined): readonly Pair[] {
  const { style, explode = style === 'form', allowReserved = false, mediaType } = field?.encoding ?? {}
  const encode = allowReserved ? encodeReserved : encodeStrictly
  if (style !== undefined) return serializeAsPairs(name, value, { style, explode }, encode)
  if (mediaType !== undefined && isJson(mediaType))
    return [[encodeStrictly(name), encode(JSON.stringify(value))]]
  const items = Array.isArray(value) ? value : [value]
  return items.map((item) => [encodeStrictly(name), encode(plainText(item))])
}

function encodeMultipart(form: JsonObject, fields: BoundBody['fields']): FormData {
  const data = new FormData()
  for (const [name, value] of Object.entries(form)) {
    if (value === null) continue
    const field = fieldOf(fields, name)
    const isWholeJson = field?.encoding.mediaType !== undefined && isJson(field.encoding.mediaType)
    for (const item of Array.isArray(value) && !isWholeJson ? value : [value])
      appendPart(data, name, item, field)
  }
  return data
}

function appendPart(data: FormData, name: string, value: JsonValue, field: BoundField | undefined): void {
  const { mediaType } = field?.encoding ?? {}
  if (field?.file === true) appendFile(data, name, value, mediaType)
  else if (typeof value === 'object' && value !== null)
    data.append(name, new Blob([JSON.stringify(value)], { type: mediaType ?? 'application/json' }))
  else if (mediaType === undefined) data.append(name, plainText(value))
  else
    data.append(
      name,
      new Blob([isJson(mediaType) ? JSON.stringify(value) : plainText(value)], { type: mediaType }),
    )
}

function appendFile(data: FormData, name: string, value: JsonValue, declared: string | undefined): void {
  const { base64, filename, mediaType } = isJsonObject(value) ? value : { base64: value }
  const usual = declared === undefined || declared.includes('*') ? 'application/octet-stream' : declared
  const type = typeof mediaType === 'string' ? mediaType : usual
  const blob = new Blob([readBase64(base64, name)], { type })
  data.append(name, blob, typeof filename === 'string' ? filename : name)
}

/** Strict, because bytes that were not meant would be sent. */
function readBase64(value: JsonValue | undefined, name: string): Uint8Array<ArrayBuffer> {
  const text = typeof value === 'string' ? value.replaceAll(/\s/g, '') : undefined
  const isBase64 =
    text !== undefined && /^[A-Za-z0-9+/_-]*={0,2}$/.test(text) && text.replace(/=+$/, '').length % 4 !== 1
  if (!isBase64) throw new ToolError(`"${name}" must be base64.`)
  return new Uint8Array(Buffer.from(text, 'base64'))
}
