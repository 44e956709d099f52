import { ToolError } from '#core/errors'
import { isJsonObject, type JsonArray, type JsonObject, type JsonValue } from '#core/json'
import type { Binding, BoundBody, BoundField, BoundParameter } from './binding.ts'
import { type Encoding, isJson } from './operation.ts'

/** A request still without its credentials. */
export interface RequestParts {
  readonly url: string
  readonly query: Pair[]
  readonly headers: Headers
  readonly cookies: Pair[]
  readonly body: EncodedBody | undefined
}

/** Puts every member of the input where its binding says. */
export function buildRequest(binding: Binding, input: JsonObject): RequestParts {
  const query: Pair[] = []
  const cookies: Pair[] = []
  const headers = new Headers({ accept: binding.accept })
  for (const parameter of binding.parameters) {
    const value = given(input, parameter.property)
    if (value === undefined || value === null || parameter.in === 'path') continue
    if (parameter.in === 'header') setHeader(headers, parameter, value)
    else (parameter.in === 'query' ? query : cookies).push(...pairsOf(parameter, value))
  }
  return {
    url: binding.baseUrl + fillPath(binding, input),
    query,
    headers,
    cookies,
    body: bodyFrom(binding, input),
  }
}

function bodyFrom({ body }: Binding, input: JsonObject): EncodedBody | undefined {
  const value = body === undefined ? undefined : given(input, body.property)
  return body === undefined || value === undefined ? undefined : encodeBody(body, value)
}

/** Nothing is read from a prototype: a parameter may be called `constructor`. */
function given(input: JsonObject, property: string): JsonValue | undefined {
  return Object.hasOwn(input, property) ? input[property] : undefined
}

function pairsOf(parameter: BoundParameter, value: JsonValue): readonly Pair[] {
  const encode = parameter.allowReserved ? encodeReserved : encodeStrictly
  if (parameter.mediaType !== undefined)
    return [[encodeStrictly(parameter.name), encode(inMediaType(parameter, value))]]
  return serializeAsPairs(parameter.name, value, parameter, encode)
}

/** A parameter with a media type is that media type's text. */
function inMediaType({ mediaType = '' }: BoundParameter, value: JsonValue): string {
  return isJson(mediaType) ? JSON.stringify(value) : plainText(value)
}

function setHeader(headers: Headers, parameter: BoundParameter, value: JsonValue): void {
  const text =
    parameter.mediaType === undefined
      ? serializeInPath(parameter.name, value, parameter, asItIs)
      : inMediaType(parameter, value)
  if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(text)) {
    throw new ToolError(
      `"${parameter.property}" travels in a header and holds a character that headers cannot carry.`,
    )
  }
  headers.set(parameter.name, text)
}

function fillPath({ path, parameters }: Binding, input: JsonObject): string {
  const byName = new Map(parameters.filter(({ in: place }) => place === 'path').map((one) => [one.name, one]))
  const filled = path.replaceAll(/\{([^{}]+)\}/g, (whole, name: string) => {
    const parameter = byName.get(name)
    return parameter === undefined ? whole : pathText(parameter, given(input, parameter.property))
  })
  // A segment of dots would climb out of the accepted path.
  if (filled.split('/').some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) {
    throw new ToolError(
      'A parameter of the path makes a segment of dots alone, which would lead to another address.',
    )
  }
  return filled
}

function pathText(parameter: BoundParameter, value: JsonValue | undefined): string {
  const text =
    value === undefined || value === null
      ? ''
      : parameter.mediaType === undefined
        ? serializeInPath(parameter.name, value, parameter, encodeStrictly)
        : encodeStrictly(inMediaType(parameter, value))
  if (text === '')
    throw new ToolError(`"${parameter.property}" is part of the address and must not be empty.`)
  return text
}

interface EncodedBody {
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

function encodeBody(body: BoundBody, value: JsonValue): EncodedBody {
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

type Manner = Pick<Encoding, 'style' | 'explode'>

/** One `name=value` of a query, a form or a cookie; both are already encoded. */
export type Pair = readonly [name: string, value: string]

type Encode = (text: string) => string

/** RFC 6570: everything but unreserved characters, also those that `encodeURIComponent` leaves. */
export function encodeStrictly(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** `allowReserved`: also reserved characters stay, except those that would end the value. */
function encodeReserved(text: string): string {
  return encodeStrictly(text).replaceAll(/%(3A|2F|3F|5B|5D|40|21|24|27|28|29|2A|2C|3B|3D)/g, (code) =>
    decodeURIComponent(code),
  )
}

/** A header holds text as it is. */
function asItIs(text: string): string {
  return text
}

/** The text of a single value; what has parts of its own inside a list is written as JSON. */
function plainText(value: JsonValue): string {
  if (typeof value === 'string') return value
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)
}

const SEPARATORS = {
  simple: ',',
  form: ',',
  label: ',',
  matrix: ',',
  deepObject: ',',
  spaceDelimited: ' ',
  pipeDelimited: '|',
  tabDelimited: '\t',
} as const satisfies Record<Encoding['style'], string>

/** A value inside a path: `simple`, `label` and `matrix`. */
function serializeInPath(name: string, value: JsonValue, { style, explode }: Manner, encode: Encode): string {
  if (style === 'matrix') {
    return matrixPairs(name, value, explode, encode)
      .map((pair) => `;${joinPair(pair)}`)
      .join('')
  }
  const prefix = style === 'label' ? '.' : ''
  const separator = style === 'label' && explode ? '.' : separatorOf(style, encode)
  return prefix + partsOf(value, explode, encode).join(separator)
}

function matrixPairs(name: string, value: JsonValue, explode: boolean, encode: Encode): readonly Pair[] {
  const key = encode(name)
  if (!explode || !isCollection(value)) return [[key, partsOf(value, false, encode).join(',')]]
  if (isJsonObject(value))
    return present(value).map(([member, item]) => [encode(member), encode(plainText(item))])
  return value.map((item) => [key, encode(plainText(item))])
}

/** RFC 6570 §3.2.7: nothing follows the name of an empty value. */
function joinPair([name, value]: Pair): string {
  return value === '' ? name : `${name}=${value}`
}

/** A value in a query, a form or a cookie. */
function serializeAsPairs(name: string, value: JsonValue, encoding: Manner, encode: Encode): readonly Pair[] {
  const key = encodeStrictly(name)
  if (!isCollection(value)) return [[key, encode(plainText(value))]]
  if (encoding.style === 'deepObject') return deepPairs(key, value, encode)
  if (encoding.explode) {
    return isJsonObject(value)
      ? present(value).map(([member, item]) => [encodeStrictly(member), encode(plainText(item))])
      : value.map((item) => [key, encode(plainText(item))])
  }
  const parts = partsOf(value, false, encode)
  return parts.length === 0 ? [] : [[key, parts.join(separatorOf(encoding.style, encodeStrictly))]]
}

/** `a[b][c]=1`, and an index for members of a list. */
function deepPairs(key: string, value: JsonArray | JsonObject, encode: Encode): readonly Pair[] {
  return Object.entries(value).flatMap(([member, item]: [string, JsonValue]) => {
    if (item === null) return []
    const inner = `${key}%5B${encodeStrictly(member)}%5D`
    return isCollection(item) ? deepPairs(inner, item, encode) : [[inner, encode(plainText(item))] as const]
  })
}

/** The parts between separators: items, or names and values. */
function partsOf(value: JsonValue, explode: boolean, encode: Encode): readonly string[] {
  if (!isCollection(value)) return [encode(plainText(value))]
  if (!isJsonObject(value)) return value.map((item) => encode(plainText(item)))
  const pairs = present(value).map(([name, item]) => [encode(name), encode(plainText(item))] as const)
  return explode ? pairs.map((pair) => pair.join('=')) : pairs.flat()
}

function present(value: JsonObject): readonly (readonly [string, JsonValue])[] {
  return Object.entries(value).filter(([, item]) => item !== null)
}

/** A comma separates as it is; other separators are encoded like the rest. */
function separatorOf(style: Encoding['style'], encode: Encode): string {
  const separator = SEPARATORS[style]
  return separator === ',' ? separator : encode(separator)
}

function isCollection(value: JsonValue): value is JsonArray | JsonObject {
  return typeof value === 'object' && value !== null
}
