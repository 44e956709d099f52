import { type JsonValue, parseJson, TooMuchJson } from '#kernel/base/json'
import { CallFailure } from './failure.ts'

/**
 * HTTP for the client: one exchange with a deadline, a size limit and no redirects, and helpers for aborting. All
 * requests of `collet/client` pass through `exchange`. Invariant: every wait ends, by an answer, a deadline or an
 * abort.
 */

/** Caches the last answer to each `GET` that has an `ETag`, and revalidates it before each use. */
export function revalidatingFetch(send: Fetch): Fetch {
  const known = new Map<string, { readonly etag: string; readonly text: string; readonly headers: Headers }>()
  return async (url, init) => {
    if (init.method !== 'GET') return await send(url, init)
    const last = known.get(url)
    const sendNow = last === undefined ? send : withHeader(send, 'if-none-match', last.etag)
    const response = await sendNow(url, init)
    if (response.status === 304 && last !== undefined) {
      return new Response(last.text, { status: 200, headers: last.headers })
    }
    const etag = response.headers.get('etag')
    if (response.status !== 200 || etag === null) return response
    const text = await response.text()
    const kept = new Headers(response.headers)
    // These headers describe the encoded body, but the stored text is decoded.
    for (const name of ['content-encoding', 'content-length']) kept.delete(name)
    known.set(url, { etag, text, headers: kept })
    return new Response(text, { status: 200, headers: kept })
  }
}

/** The part of `fetch` that the client uses. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** Adds a header to every request. */
export function withHeader(send: Fetch, name: string, value: string): Fetch {
  return (url, init) => {
    const headers = new Headers(init.headers)
    headers.set(name, value)
    return send(url, { ...init, headers })
  }
}

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly url: string
  /** Called for each attempt, inside its deadline, because tokens expire. */
  headers(): Promise<Readonly<Record<string, string>>>
  readonly body?: string
  /** If set, only the status matters: the body is neither read nor awaited. */
  readonly ignoreBody?: true
}

export interface HttpLimits {
  readonly fetch: Fetch
  readonly timeoutMs: number
  readonly maxResponseBytes: number
  readonly signal: AbortSignal | undefined
  /** Replaces `JSON.parse` for callers that must not block on a large answer; `undefined` if the text is not JSON. */
  readonly readJson?: ((text: string) => Promise<JsonValue | undefined>) | undefined
}

export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers
  /** `undefined` if the body is not JSON. */
  readonly body: JsonValue | undefined
}

export type NoAnswerReason = 'network' | 'timeout' | 'aborted' | 'too_large' | 'too_much' | 'redirect'

/** An exchange without an answer. Internal: callers get a `CallFailure`. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
  readonly reason: NoAnswerReason

  constructor(reason: NoAnswerReason, message: string, cause?: unknown) {
    super(message, { cause })
    this.reason = reason
  }
}

/** Sends one request and reads its whole answer, within one deadline. */
export async function exchange(request: HttpRequest, limits: HttpLimits): Promise<HttpAnswer> {
  const deadline = new AbortController()
  const timer = setTimeout(() => deadline.abort(), limits.timeoutMs)
  const signal = joinSignals(deadline.signal, limits.signal)
  try {
    return await untilAborted(signal, (ended) => sendAndRead(request, limits, ended))
  } catch (error) {
    if (error instanceof CallFailure || error instanceof NoAnswer) throw error
    if (limits.signal?.aborted)
      throw new NoAnswer('aborted', 'was aborted by its caller', limits.signal.reason)
    if (deadline.signal.aborted) throw new NoAnswer('timeout', `did not answer within ${limits.timeoutMs} ms`)
    throw new NoAnswer('network', 'could not be reached, or the connection was lost', error)
  } finally {
    clearTimeout(timer)
  }
}

async function sendAndRead(
  request: HttpRequest,
  limits: HttpLimits,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const { fetch, maxResponseBytes } = limits
  const headers = { Accept: 'application/json', ...(await request.headers()) }
  signal.throwIfAborted()
  const response = await fetch(request.url, {
    method: request.method,
    headers: request.body === undefined ? headers : { ...headers, 'Content-Type': 'application/json' },
    ...(request.body === undefined ? {} : { body: request.body }),
    // A redirect could send credentials and a call to another server, so none is followed.
    redirect: 'manual',
    signal,
  })
  if (response.type === 'opaqueredirect' || (response.status >= 300 && response.status < 400)) {
    await response.body?.cancel()
    throw new NoAnswer('redirect', `answered with a redirect${redirectTarget(response, request.url)}`)
  }
  if (request.ignoreBody) {
    await response.body?.cancel()
    return { status: response.status, headers: response.headers, body: undefined }
  }
  const text = await readText(response, maxResponseBytes, signal)
  if (text === undefined) {
    throw new NoAnswer('too_large', `answered with more than ${maxResponseBytes} bytes`)
  }
  const body =
    limits.readJson === undefined ? parseJson(text) : await limits.readJson(text).catch(refuseTooMuch)
  return { status: response.status, headers: response.headers, body }
}

function refuseTooMuch(error: unknown): never {
  if (!(error instanceof TooMuchJson)) throw error
  throw new NoAnswer('too_much', `answered with JSON that ${error.message}`)
}

/** Names only the origin, because the rest of a redirect's address may contain secrets. */
function redirectTarget(response: Response, from: string): string {
  const target = URL.parse(response.headers.get('location') ?? '', from)
  return target === null || !response.headers.has('location') ? '' : ` to ${target.origin}`
}

/** Waits `ms`, or rejects with the signal's reason as soon as it is aborted. */
export type Sleep = (ms: number, signal?: AbortSignal) => Promise<void>

export const sleep: Sleep = (ms, signal) =>
  untilAborted(
    signal,
    (ended) =>
      new Promise((resolve) => {
        const timer = setTimeout(resolve, ms)
        ended.addEventListener('abort', () => clearTimeout(timer), { once: true })
      }),
  )

/**
 * Runs `work`, but stops waiting for it when the signal is aborted. `work` gets a signal that is always aborted once
 * the wait is over.
 */
export async function untilAborted<T>(
  signal: AbortSignal | undefined,
  work: (ended: AbortSignal) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted()
  const ending = new AbortController()
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const leave = () => reject(signal?.reason)
  signal?.addEventListener('abort', leave, { once: true })
  try {
    return await Promise.race([work(ending.signal), aborted])
  } finally {
    signal?.removeEventListener('abort', leave)
    ending.abort(signal?.reason)
  }
}

/** Waits for work that several callers share. One caller's abort does not affect the others. */
export async function awaitShared<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  action: string,
): Promise<T> {
  try {
    return await untilAborted(signal, () => work)
  } catch (cause) {
    if (cause instanceof CallFailure || !signal?.aborted) throw cause
    const message = `${action} was aborted by its caller; nothing was called.`
    throw new CallFailure('transport', message, { cause })
  }
}

/** A signal aborted by the first of these; `undefined` if there are none. */
export function joinSignals(...signals: readonly (AbortSignal | undefined)[]): AbortSignal | undefined {
  const present = signals.filter((signal) => signal !== undefined)
  return present.length < 2 ? present[0] : AbortSignal.any(present)
}

/** The body as text, or `undefined` if it is longer than `maxBytes`, so that a server cannot exhaust the memory. */
export async function readText(
  response: Response,
  maxBytes: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (response.body === null) return ''
  const reader = response.body.getReader()
  const stop = () => void reader.cancel().catch(() => undefined)
  signal.addEventListener('abort', stop, { once: true })
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    bytes += value.byteLength
    if (bytes > maxBytes) {
      stop()
      return undefined
    }
    text += decoder.decode(value, { stream: true })
  }
}
