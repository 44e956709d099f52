import { ToolError } from '#kernel/base/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Binding, BoundBody, BoundField, BoundParameter } from './binding.ts'
import { type EncodedBody, encodeMultipart, readBase64 } from './multipart.ts'
import { isJson } from './operation.ts'
import {
  encodeReserved,
  encodeStrictly,
  type Pair,
  plainText,
  serializeAsPairs,
  serializeInPath,
  unencoded,
} from './serialize.ts'

/**
 * Builds the request for a call: path, query, headers and body. `invoke.ts` sends it. Invariant: no parameter adds a path
 * segment of only dots, because it would change the address.
 */

/** A request before its credentials are added. */
export interface RequestParts {
  readonly url: string
  readonly query: Pair[]
  readonly headers: Headers
  readonly cookies: Pair[]
  readonly body: EncodedBody | undefined
}

export function buildRequest(binding: Binding, input: JsonObject): RequestParts {
  const query: Pair[] = []
  const cookies: Pair[] = []
  const headers = new Headers({ accept: binding.accept })
  for (const parameter of binding.parameters) {
    const value = ownMember(input, parameter.property)
    if (value === undefined || value === null || parameter.in === 'path') continue
    if (parameter.in === 'header') setHeader(headers, parameter, value)
    else (parameter.in === 'query' ? query : cookies).push(...pairsOf(parameter, value))
  }
  const { body: bound } = binding
  const value = bound && ownMember(input, bound.property)
  const body = bound === undefined || value === undefined ? undefined : ENCODERS[bound.form](value, bound)
  return { url: binding.baseUrl + fillPath(binding, input), query, headers, cookies, body }
}

/** Reads only own members, because a parameter may be called `constructor`. */
function ownMember<Value>(members: Readonly<Record<string, Value>>, name: string): Value | undefined {
  return Object.hasOwn(members, name) ? members[name] : undefined
}

function pairsOf(parameter: BoundParameter, value: JsonValue): readonly Pair[] {
  const encode = parameter.allowReserved ? encodeReserved : encodeStrictly
  if (parameter.mediaType !== undefined)
    return [[encodeStrictly(parameter.name), encode(mediaTypeText(parameter, value))]]
  return serializeAsPairs(parameter.name, value, parameter, encode)
}

function textOf(parameter: BoundParameter, value: JsonValue, encode: typeof unencoded): string {
  return parameter.mediaType === undefined
    ? serializeInPath(parameter.name, value, parameter, encode)
    : encode(mediaTypeText(parameter, value))
}

/** The text of a parameter that is written in a media type. */
function mediaTypeText({ mediaType = '' }: BoundParameter, value: JsonValue): string {
  return isJson(mediaType) ? JSON.stringify(value) : plainText(value)
}

function setHeader(headers: Headers, parameter: BoundParameter, value: JsonValue): void {
  const text = textOf(parameter, value, unencoded)
  if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(text)) {
    throw new ToolError(
      `"${parameter.property}" is sent in a header and has a character that headers cannot contain.`,
    )
  }
  headers.set(parameter.name, text)
}

function fillPath({ path, parameters }: Binding, input: JsonObject): string {
  const byName = new Map(
    parameters.filter(({ in: place }) => place === 'path').map((bound) => [bound.name, bound]),
  )
  const filled = path.replaceAll(/\{([^{}]+)\}/g, (whole, name: string) => {
    const parameter = byName.get(name)
    return parameter === undefined ? whole : pathText(parameter, ownMember(input, parameter.property))
  })
  // A segment of only dots would lead out of the accepted path.
  if (filled.split('/').some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) {
    throw new ToolError('A path parameter results in a segment of only dots, which would change the address.')
  }
  return filled
}

function pathText(parameter: BoundParameter, value: JsonValue | undefined): string {
  const text = value === undefined || value === null ? '' : textOf(parameter, value, encodeStrictly)
  if (text === '')
    throw new ToolError(`"${parameter.property}" is part of the address and must not be empty.`)
  return text
}

const ENCODERS = {
  json: (value, { mediaType }) => ({ body: JSON.stringify(value), contentType: mediaType }),
  text: (value, { mediaType }) => ({ body: plainText(value), contentType: mediaType }),
  binary: (value, { mediaType, property }) => ({ body: readBase64(value, property), contentType: mediaType }),
  urlencoded: (value, { mediaType, fields }) => ({
    body: encodeForm(asObject(value), fields),
    contentType: mediaType,
  }),
  multipart: (value, body) => encodeMultipart(asObject(value), body),
} as const satisfies Record<BoundBody['form'], (value: JsonValue, body: BoundBody) => EncodedBody>

function asObject(value: JsonValue): JsonObject {
  if (isJsonObject(value)) return value
  throw new ToolError('The body is a form: pass an object with its fields.')
}

function encodeForm(form: JsonObject, fields: BoundBody['fields']): string {
  return Object.entries(form)
    .flatMap(([name, value]) => (value === null ? [] : formPairs(name, value, ownMember(fields, name))))
    .map((pair) => pair.join('='))
    .join('&')
}

/** Unless the document declares a style, each item of a list becomes a pair with the same name, and an object becomes JSON. */
function formPairs(name: string, value: JsonValue, field: BoundField | undefined): readonly Pair[] {
  const { style, explode = style === 'form', allowReserved = false, mediaType } = field?.encoding ?? {}
  const encode = allowReserved ? encodeReserved : encodeStrictly
  if (style !== undefined) return serializeAsPairs(name, value, { style, explode }, encode)
  if (mediaType !== undefined && isJson(mediaType))
    return [[encodeStrictly(name), encode(JSON.stringify(value))]]
  const items = Array.isArray(value) ? value : [value]
  return items.map((item) => [encodeStrictly(name), encode(plainText(item))])
}
