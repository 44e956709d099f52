import { Readable } from 'node:stream'
import { denied } from './egress-fault.ts'
import { outgoingHeaders } from './request-headers.ts'

/** A request as it leaves. */
export interface OutgoingRequest {
  readonly url: URL
  readonly method: string
  readonly headers: Headers
  readonly body: Buffer | Readable | null
  readonly redirect: 'follow' | 'manual' | 'error'
  readonly signal: AbortSignal
}

export type FetchInput = Parameters<typeof fetch>[0]
export type FetchInit = Parameters<typeof fetch>[1]

export interface ReadRequest {
  /** Its body is still to be read. */
  readonly request: Request
  readonly head: Omit<OutgoingRequest, 'body'>
}

/** Reads what `fetch` takes. Texts of its errors would repeat URLs and headers, so they get our own. */
export function readRequest(input: FetchInput, init: FetchInit): ReadRequest {
  const url = URL.parse(input instanceof Request ? input.url : String(input))
  if (url === null) throw denied('The URL cannot be read; it must be absolute.')
  if (url.username !== '' || url.password !== '') throw denied('A URL must not carry credentials.')
  const request = makeRequest(input, init)
  if (request.integrity !== '') throw new TypeError('fetch: `integrity` is not supported here.')
  const { method, redirect } = request
  // The caller's own signal: one derived from it lives no longer than the request object.
  const signal = init?.signal ?? (input instanceof Request ? input : request).signal
  return { request, head: { url, method, headers: outgoingHeaders(request.headers), redirect, signal } }
}

function makeRequest(input: FetchInput, init: FetchInit): Request {
  try {
    return new Request(input, init)
  } catch {
    throw new TypeError('fetch: the method, headers, body or another option is not valid.')
  }
}

/** A stream is sent as it comes; anything else is read first, so that its length can be said. */
export async function readBody(request: Request, init: FetchInit): Promise<Buffer | Readable | null> {
  if (request.body === null) return null
  const given: unknown = init?.body
  const isStream =
    given instanceof ReadableStream ||
    (typeof given === 'object' && given !== null && Symbol.asyncIterator in given)
  return isStream ? Readable.from(request.body) : Buffer.from(await request.arrayBuffer())
}
