import { fault, isToolError, ToolError } from '#core/errors'
import type { JsonValue } from '#core/json'
import type { Invocation, SourceServices } from '#core/ports/source'
import { applyCredentials } from './apply-credentials.ts'
import { type Binding, readBinding } from './binding.ts'
import { buildRequest, type RequestParts } from './build-request.ts'
import { idempotencyKey } from './idempotency-key.ts'
import { readAnswer } from './read-answer.ts'
import { refusedError } from './refused-error.ts'

const SHORTEST_SECRET = 4

export interface InvokeOptions {
  readonly services: SourceServices
  readonly maxResponseBytes: number
  /** Of the call and of the source. */
  readonly signal: AbortSignal
}

/** One call, one request: it is never sent a second time from here (OWP-93, rule 33). */
export async function invoke(
  { binding: stored, input, context }: Invocation,
  options: InvokeOptions,
): Promise<JsonValue> {
  const binding = readBinding(stored)
  const operation = `${binding.method.toUpperCase()} ${binding.path}`
  const parts = buildRequest(binding, input)
  const sent = applyCredentials(binding.credentials, parts, context)
  const { idempotency } = binding
  if (idempotency !== undefined)
    parts.headers.set(idempotency.header, idempotencyKey(context.effectKey(), idempotency))
  const { traceparent } = context
  if (traceparent !== undefined && !parts.headers.has('traceparent'))
    parts.headers.set('traceparent', traceparent)
  const response = await send(
    addressOf(parts, binding),
    initOf(parts, binding, options.signal),
    options.services,
  )
  const told = { operation, redact: (text: string) => redact(text, sent) }
  if (response.ok) {
    return readAnswer(response, { ...told, binding, maxResponseBytes: options.maxResponseBytes })
  }
  throw await refusedError(response, { ...told, nowMs: options.services.clock.nowMs() })
}

/** The address, which must still be under the accepted one after the URL was read (rule 32). */
function addressOf({ url: text, query }: RequestParts, { baseUrl }: Binding): URL {
  const search = query.map((pair) => pair.join('=')).join('&')
  const url = URL.parse(search === '' ? text : `${text}${text.includes('?') ? '&' : '?'}${search}`)
  const base = new URL(baseUrl)
  const folder = base.pathname.endsWith('/') ? base.pathname : `${base.pathname}/`
  if (
    url === null ||
    url.origin !== base.origin ||
    !`${url.pathname}/`.startsWith(folder) ||
    url.hash !== ''
  ) {
    throw new ToolError('These parameters would lead to another address than the one that was accepted.')
  }
  return url
}

function initOf(
  { headers, cookies, body }: RequestParts,
  { method }: Binding,
  signal: AbortSignal,
): RequestInit {
  if (cookies.length > 0) headers.set('cookie', cookies.map((pair) => pair.join('=')).join('; '))
  if (body?.contentType !== undefined) headers.set('content-type', body.contentType)
  return { method: method.toUpperCase(), headers, signal, ...(body === undefined ? {} : { body: body.body }) }
}

async function send(url: URL, init: RequestInit, services: SourceServices): Promise<Response> {
  try {
    return await services.fetch(url, init)
  } catch (error) {
    if (isToolError(error) || init.signal?.aborted === true) throw error
    // Who knows how far it got: no word of a retry (rule 9).
    throw fault('upstream_failed', 'The service behind the tool gave no usable answer.', { cause: error })
  }
}

function redact(text: string, sent: readonly string[]): string {
  const longest = sent
    .filter((secret) => secret.length >= SHORTEST_SECRET)
    .toSorted((a, b) => b.length - a.length)
  return longest.reduce((rest, secret) => rest.replaceAll(secret, '[redacted]'), text)
}
