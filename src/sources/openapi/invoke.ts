import { isUtf8 } from 'node:buffer'
import { hash } from 'node:crypto'
import { readStart } from '#kernel/base/bytes'
import { fault, isToolError, ToolError } from '#kernel/base/errors'
import { defined, type JsonObject, type JsonValue, setMember, tooMuchJson } from '#kernel/base/json'
import type { ToolContext } from '#kernel/tool/tool'
import type { Invocation, SourceServices } from '#sources/kit/source'
import { type Binding, type BoundCredential, type BoundIdempotency, readBinding } from './binding.ts'
import { essenceOf, isJson, isReading, isTextual } from './operation.ts'
import { buildRequest, type RequestParts } from './request.ts'
import { encodeStrictly, type Pair } from './serialize.ts'

/**
 * Calls an operation: sends the request with its credentials and reads the response. The OpenAPI source runs its calls here.
 * Invariant: a request is sent at most once (OWP-93, rule 33).
 */

const MIN_SECRET_LENGTH = 4

interface InvokeOptions {
  readonly services: SourceServices
  readonly maxResponseBytes: number
  readonly signal: AbortSignal
}

export async function invoke(
  { binding: stored, input, context }: Invocation,
  options: InvokeOptions,
): Promise<JsonValue> {
  const binding = readBinding(stored)
  const operation = `${binding.method.toUpperCase()} ${binding.path}`
  const parts = buildRequest(binding, input)
  const secrets = applyCredentials(binding.credentials, parts, context)
  const { idempotency } = binding
  if (idempotency !== undefined)
    parts.headers.set(idempotency.header, idempotencyKey(context.effectKey(), idempotency))
  if (!parts.headers.has('traceparent'))
    for (const [name, value] of Object.entries(context.traceHeaders ?? {}))
      if (!parts.headers.has(name)) parts.headers.set(name, value)
  const init = initOf(parts, binding, options.signal)
  const response = await send(addressOf(parts, binding), init, options.services)
  const answer = { ...options, binding, operation, redact: (text: string) => redact(text, secrets) }
  if (response.ok) return readAnswer(response, answer)
  throw await refusedError(response, answer)
}

/** The URL of the request. Throws if it is not below the accepted base URL (rule 32). */
function addressOf({ url: text, query }: RequestParts, { baseUrl }: Binding): URL {
  const search = query.map((pair) => pair.join('=')).join('&')
  const url = URL.parse(search === '' ? text : `${text}${text.includes('?') ? '&' : '?'}${search}`)
  const base = new URL(baseUrl)
  const folder = base.pathname.endsWith('/') ? base.pathname : `${base.pathname}/`
  const isBelow = url?.origin === base.origin && `${url.pathname}/`.startsWith(folder) && url.hash === ''
  if (isBelow) return url
  throw new ToolError('These parameters would lead to an address outside the accepted base URL.')
}

function initOf(
  { headers, cookies, body }: RequestParts,
  { method }: Binding,
  signal: AbortSignal,
): RequestInit {
  if (cookies.length > 0) headers.set('cookie', cookies.map((pair) => pair.join('=')).join('; '))
  if (body !== undefined) headers.set('content-type', body.contentType)
  return { method: method.toUpperCase(), headers, signal, ...(body === undefined ? {} : { body: body.body }) }
}

async function send(url: URL, init: RequestInit, services: SourceServices): Promise<Response> {
  try {
    return await services.fetch(url, init)
  } catch (error) {
    if (isToolError(error) || init.signal?.aborted === true) throw error
    // The service may have processed the request, so the error does not allow a retry (rule 9).
    throw fault('upstream_failed', 'The service behind the tool did not return a usable response.', {
      cause: error,
    })
  }
}

function redact(text: string, secrets: readonly string[]): string {
  const longestFirst = secrets
    .filter((secret) => secret.length >= MIN_SECRET_LENGTH)
    .toSorted((a, b) => b.length - a.length)
  return longestFirst.reduce((rest, secret) => rest.replaceAll(secret, '[redacted]'), text)
}

const MAX_EXCERPT_BYTES = 4_096
const MAX_EXCERPT_LENGTH = 600
const MAX_WAIT_MS = 24 * 3_600_000

interface AnswerContext extends InvokeOptions {
  readonly binding: Binding
  /** Method and path, for example `GET /pets/{petId}`. */
  readonly operation: string
  /** Removes the credentials that were sent, because a `Link` header may repeat the query. */
  redact(text: string): string
}

/** The error for an unsuccessful response: the status, advice, and the service's text. */
async function refusedError(response: Response, context: AnswerContext): Promise<ToolError> {
  const { status } = response
  const excerpt = await readExcerpt(response, context)
  const message = `${context.operation} answered ${status}${adviceFor(status)}${excerpt === '' ? '.' : `: ${excerpt}`}`
  // With these two statuses the service did not process the request (rule 9).
  if (status === 429 || status === 503) {
    const retryAfterMs = retryAfter(response.headers.get('retry-after'), context.services.clock.nowMs())
    return fault('upstream_failed', message, defined({ canRetry: true, retryAfterMs }))
  }
  return fault(status >= 500 ? 'upstream_failed' : 'tool_failed', message)
}

function adviceFor(status: number): string {
  if (status < 400) return ' (a redirect, which is not followed)'
  if (status === 400 || status === 422) return ' (the service does not accept this input: correct it)'
  if (status === 401) return ' (the service does not accept the credential)'
  if (status === 403) return ' (the credential does not allow this)'
  if (status === 404 || status === 410) return ' (nothing was found for these parameters)'
  if (status === 409 || status === 412) return ' (the state of the resource has changed: read it first)'
  if (status === 429) return ' (too many requests: wait)'
  if (status === 503) return ' (not available right now: wait)'
  return ''
}

async function readExcerpt(response: Response, { redact }: AnswerContext): Promise<string> {
  const mediaType = response.headers.get('content-type') ?? 'text/plain'
  if (!isTextual(mediaType)) {
    await response.body?.cancel()
    return ''
  }
  try {
    const { bytes } = await readStart(response.body, MAX_EXCERPT_BYTES)
    // The text is redacted before it is shortened, so that no part of a credential remains.
    const text = redact(bytes.toString('utf8'))
      .replaceAll(/\p{Cc}+|\s+/gu, ' ')
      .trim()
      .toWellFormed()
    return text.length <= MAX_EXCERPT_LENGTH ? text : `${text.slice(0, MAX_EXCERPT_LENGTH).toWellFormed()}…`
  } catch {
    return ''
  }
}

/** Reads a `Retry-After` header: seconds or a date (RFC 9110 §10.2.3). */
function retryAfter(value: string | null, nowMs: number): number | undefined {
  if (value === null) return undefined
  const waitMs = /^\d{1,9}$/.test(value.trim()) ? Number(value) * 1_000 : Date.parse(value) - nowMs
  return Number.isFinite(waitMs) ? Math.min(Math.max(0, waitMs), MAX_WAIT_MS) : undefined
}

/** The idempotency key of a call, in the form that the service accepts (rule 27, OWP-93). */
function idempotencyKey(effectKey: string, { form, maxLength }: BoundIdempotency): string {
  const text = form === 'uuid' ? asUuid(effectKey) : effectKey
  if (maxLength === undefined || text.length <= maxLength) return text
  // The start of a digest is as unique as its length allows; the start of the key may not be.
  return hash('sha256', effectKey, 'base64url').slice(0, maxLength)
}

/** A UUID of version 8, which has custom bits (RFC 9562). */
function asUuid(text: string): string {
  const digits = hash('sha256', text, 'hex')
  const variant = ((Number.parseInt(digits.charAt(16), 16) & 0x3) | 0x8).toString(16)
  const custom = `${digits.slice(0, 12)}8${digits.slice(13, 16)}${variant}${digits.slice(17, 32)}`
  return custom.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

const FORMS = {
  plain: (text) => text,
  bearer: (text) => `Bearer ${text}`,
  // The secret is `user:password` (RFC 7617).
  basic: (text) => `Basic ${Buffer.from(text, 'utf8').toString('base64')}`,
} as const satisfies Record<BoundCredential['form'], (text: string) => string>

/** Adds the credentials to a request. Returns their texts, so that they can be redacted in the response. */
function applyCredentials(
  credentials: readonly BoundCredential[],
  { query, headers, cookies }: RequestParts,
  context: Pick<ToolContext, 'token' | 'secret'>,
): readonly string[] {
  return credentials.flatMap((credential) => {
    const secret = credential.from === 'token' ? context.token(credential.id) : context.secret(credential.id)
    const text = secret.reveal()
    const value = FORMS[credential.form](text)
    if (credential.in === 'header') setCredential(headers, credential, value)
    else if (credential.in === 'query')
      replace(query, [encodeStrictly(credential.name), encodeStrictly(value)])
    else replace(cookies, [encodeStrictly(credential.name), cookieValue(value)])
    const encoded = credential.form === 'basic' ? [value.slice('Basic '.length)] : []
    return [text, value, encodeStrictly(value), ...encoded]
  })
}

/** RFC 6265 §4.1.1 defines no encoding, so a value is encoded only if a cookie cannot contain it. */
function cookieValue(text: string): string {
  return /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*$/.test(text) ? text : encodeStrictly(text)
}

function setCredential(headers: Headers, { name, id }: BoundCredential, text: string): void {
  if (!/^[\x20-\x7e]+$/.test(text))
    throw new ToolError(`The credential "${id}" contains characters that headers cannot contain.`)
  headers.set(name, text)
}

function replace(pairs: Pair[], pair: Pair): void {
  const others = pairs.filter(([name]) => name !== pair[0])
  pairs.splice(0, pairs.length, ...others, pair)
}

async function readAnswer(response: Response, context: AnswerContext): Promise<JsonValue> {
  const { binding } = context
  if (binding.method === 'head') return { status: response.status, headers: shownHeaders(response, context) }
  const { bytes, isWhole } = await readStart(response.body, context.maxResponseBytes)
  if (!isWhole) {
    const setting = ' An operator can raise `maxResponseBytes` of the source and `egress.maxResponseBytes`.'
    throw tooLarge(context, `has more than ${context.maxResponseBytes} bytes`, setting)
  }
  const body = parseAnswer(bytes, response.headers.get('content-type') ?? '', context)
  const { headers } = binding.response
  if (headers.length === 0) return body
  const shown = headers.flatMap((name) => {
    const value = response.headers.get(name)
    return value === null ? [] : [[name, context.redact(value)] as const]
  })
  const next = nextPage(response.headers.get('link'), binding)
  return { body, headers: Object.fromEntries(shown), ...(next === undefined ? {} : { next }) }
}

/** The error for a response that is too large. It must say that the service processed the request (rule 9). */
function tooLarge({ operation, binding }: AnswerContext, problem: string, setting = ''): ToolError {
  const advice = isReading(binding.method) ? 'Ask for less.' : 'Do not repeat it to get the answer.'
  const message = `${operation} succeeded, but its answer ${problem}, so it is not shown. ${advice}${setting}`
  return fault('result_too_large', message)
}

/** The media type of the response decides how its body is read, unless the document declares only JSON or no JSON. */
function parseAnswer(bytes: Buffer, mediaType: string, context: AnswerContext): JsonValue {
  const { binding, operation } = context
  const { json, raw } = binding.response
  if (bytes.length === 0) return null
  const mayBeJson = isJson(mediaType) || essenceOf(mediaType) === ''
  if (json && !raw && !mayBeJson) {
    const message = `${operation} answered ${essenceOf(mediaType)} where its document promises JSON.`
    throw fault('upstream_failed', message)
  }
  if (!mayBeJson || (raw && !json)) return rawValue(bytes, mediaType)
  const problem = tooMuchJson(bytes)
  if (problem !== undefined) throw tooLarge(context, `is JSON that ${problem}`)
  try {
    // Unlike `toString`, the decoder drops a byte order mark.
    return JSON.parse(new TextDecoder().decode(bytes))
  } catch (cause) {
    if (json === raw) return rawValue(bytes, mediaType)
    const message = `${operation} answered with a JSON content type, but the body is not JSON.`
    throw fault('upstream_failed', message, { cause })
  }
}

/** The result for content that is not JSON: text, or base64. */
function rawValue(bytes: Buffer, mediaType: string): JsonObject {
  const assumed = isUtf8(bytes) ? 'text/plain' : 'application/octet-stream'
  const type = mediaType === '' ? assumed : mediaType
  return isTextual(type)
    ? { mediaType: type, text: decode(bytes, mediaType) }
    : { mediaType: type, base64: bytes.toString('base64') }
}

const NOT_SHOWN: ReadonlySet<string> = new Set(['set-cookie', 'www-authenticate', 'authorization'])

/** The headers of a response to `HEAD`, except those that contain credentials. */
function shownHeaders({ headers }: Response, { redact }: AnswerContext): JsonObject {
  return Object.fromEntries(
    [...headers].filter(([name]) => !NOT_SHOWN.has(name)).map(([name, value]) => [name, redact(value)]),
  )
}

/** Decodes with the charset of the media type, or with UTF-8 if the charset is missing or unknown. */
function decode(bytes: Buffer, mediaType: string): string {
  const [, charset = 'utf-8'] = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(mediaType) ?? []
  try {
    return new TextDecoder(charset).decode(bytes)
  } catch {
    return bytes.toString('utf8')
  }
}

/**
 * The parameters of a `Link` with relation `next`, as members of the input. Only declared query parameters are used, because the
 * next page is another call with the same accepted binding, never a request to the address in the response.
 */
function nextPage(link: string | null, { parameters, baseUrl }: Binding): JsonObject | undefined {
  const target = link === null ? undefined : nextTarget(link)
  const url = target === undefined ? null : URL.parse(target, baseUrl)
  if (url === null) return undefined
  const next: Record<string, JsonValue> = {}
  for (const { property, name, in: place, isNumber } of parameters) {
    const value = place === 'query' ? url.searchParams.get(name) : null
    if (value === null) continue
    const number = Number(value)
    setMember(next, property, isNumber && value !== '' && Number.isFinite(number) ? number : value)
  }
  return Object.keys(next).length === 0 ? undefined : next
}

/** The target of the link with relation `next` (RFC 8288). */
function nextTarget(header: string): string | undefined {
  for (const part of header.slice(0, 8_192).split(/,(?=\s*<)/)) {
    const [, target, parameters = ''] = /^\s*<([^<>]*)>(.*)$/.exec(part) ?? []
    const [, quoted, bare] = /;\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,]+))/i.exec(parameters) ?? []
    const relations = (quoted ?? bare ?? '').toLowerCase().split(/\s+/)
    if (target !== undefined && relations.includes('next')) return target
  }
  return undefined
}
