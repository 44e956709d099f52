import { Readable } from 'node:stream'
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import { readStart } from '#kernel/base/bytes'
import { fault } from '#kernel/base/errors'
import { EventParser, EventTooLong } from '#kernel/base/event-stream'
import { type JsonObject, JsonScan, parseJson, tooMuchJson } from '#kernel/base/json'
import type { Secret } from '#kernel/base/secret'
import { encodeHeaderValue } from '#protocols/mcp/codec-message'
import { HEADERS, JSON_TYPE, META, NAMED_BY, STREAM_TYPE } from '#protocols/mcp/wire'
import type { PlainResponse, SendRequest } from '#sources/kit/source'
import { isWireObject } from './connection.ts'
import { HttpRefusal, NotConnected } from './errors.ts'
import {
  CALL_BOUNDS,
  type Credentials,
  type Delivery,
  type HeaderFields,
  MAX_BATCH,
  type MessageBounds,
  PAGE_BOUNDS,
  type Receiver,
  type Transport,
} from './transport.ts'

/**
 * The Streamable HTTP transport in all revisions: one exchange for each message, answered with JSON or with a stream of events. A
 * stream that breaks off is resumed if its events have ids. `handshake.ts` creates it.
 * Invariant: each exchange has the credentials of its own delivery and ends with the delivery's signal.
 */

interface HttpOptions {
  readonly url: string
  /** The operator's headers, sent with every request. */
  readonly headers: Readonly<Record<string, Secret>>
  /** The credentials of the connection, for messages without their own. */
  readonly credentials: Credentials
  readonly fetch: typeof fetch
  /** If set, used instead of `fetch`, because it is faster. */
  readonly send: SendRequest | undefined
}

/** Time limit for ending the session on close. */
const DELETE_TIMEOUT_MS = 2000
const MAX_REDIRECTS = 5
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
/** Redirects after which a POST stays a POST. */
const SAME_METHOD: ReadonlySet<number> = new Set([307, 308])
const MAX_RESUMES = 5
const FIRST_PAUSE_MS = 1000
const PAUSE_GROWTH = 1.5
/** Shorter retry times of a server are ignored. */
const MIN_RETRY_MS = 1000
/** After this many events of one stream the event loop gets a turn. */
const EVENTS_PER_TURN = 100
const MAX_REFUSAL_BYTES = 65_536
const MAX_RETRY_AFTER_MS = 3_600_000
const ACCEPTED = `${JSON_TYPE}, ${STREAM_TYPE}`

export class HttpTransport implements Transport {
  readonly kind = 'http'
  readonly #url: URL
  readonly #own: HeaderFields
  readonly #credentials: Credentials
  readonly #sendRequest: SendRequest
  readonly #closing = new AbortController()
  #receiver: Receiver | undefined
  #sessionId: string | undefined
  #revision: string | undefined
  /** The nonce that the server requires in DPoP proofs. */
  #nonce: string | undefined

  constructor({ url, headers, credentials, fetch: send, send: sendPlain }: HttpOptions) {
    this.#url = new URL(url)
    this.#own = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value.reveal()]),
    )
    this.#credentials = credentials
    this.#sendRequest = sendPlain ?? sendByFetch(send)
  }

  get sessionId(): string | undefined {
    return this.#sessionId
  }

  start(receiver: Receiver): Promise<void> {
    this.#receiver = receiver
    return Promise.resolve()
  }

  async send(message: JsonObject, delivery: Delivery): Promise<void> {
    if (this.#closing.signal.aborted) throw new NotConnected()
    const headers = this.#messageHeaders(message, delivery)
    const answer = await this.#exchange('POST', headers, delivery, JSON.stringify(message))
    const { status } = answer
    if (status < 200 || status >= 300) return await this.#refuse(message, delivery, answer)
    if (message.method === 'initialize') this.#sessionId = headerOf(answer, HEADERS.session)
    const isRequest = message.method !== undefined && message.id !== undefined
    const type = isRequest ? mediaType(answer) : undefined
    if (type === JSON_TYPE) return await this.#readJson(answer, delivery)
    if (type === STREAM_TYPE) return await this.#follow(answer, delivery, false)
    await startOf(answer)
    if (isRequest && status !== 202) throw new Error(`Unexpected content type: ${type}`)
  }

  adoptRevision(revision: string): void {
    this.#revision = revision
  }

  listen(): void {
    const { signal } = this.#closing
    const delivery = { signal, credentials: undefined, headers: undefined, bounds: PAGE_BOUNDS }
    this.#open(delivery, undefined)
      .then((answer) => (typeof answer === 'object' ? this.#follow(answer, delivery, true) : undefined))
      .catch(() => undefined)
  }

  /** Also ends the session at the server, if there is one (MCP-26). */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return
    const headers = this.#headers({ credentials: undefined, headers: undefined })
    const hasSession = this.#sessionId !== undefined
    this.#closing.abort(new NotConnected())
    if (!hasSession) return
    const signal = AbortSignal.timeout(DELETE_TIMEOUT_MS)
    const leaving = this.#exchange('DELETE', headers, { signal, credentials: undefined })
    await leaving.then(startOf).catch(() => undefined)
  }

  /** Follows redirects within the origin, because a server that redirects did not process the request (rule 33). */
  async #exchange(
    method: 'GET' | 'POST' | 'DELETE',
    headers: HeaderFields,
    delivery: Pick<Delivery, 'signal' | 'credentials'>,
    body?: string,
  ): Promise<PlainResponse> {
    let url = this.#url
    for (let hops = 0; ; hops += 1) {
      const answer = await this.#sendProven({ url, method, headers }, delivery, body)
      const target = redirectTarget(url, answer)
      const isKept = method === 'GET' || SAME_METHOD.has(answer.status)
      if (target === undefined || !isKept || !isWithinOrigin(url, target) || hops === MAX_REDIRECTS)
        return answer
      await startOf(answer)
      url = target
    }
  }

  /** A server that requires another nonce did not process the request, so it is sent once more (RFC 9449 §9). */
  async #sendProven(
    request: {
      readonly url: URL
      readonly method: 'GET' | 'POST' | 'DELETE'
      readonly headers: HeaderFields
    },
    { signal, credentials = this.#credentials }: Pick<Delivery, 'signal' | 'credentials'>,
    body: string | undefined,
  ): Promise<PlainResponse> {
    const { prover } = credentials
    const rest = { signal, ...(body === undefined ? {} : { body }) }
    if (prover === undefined) return await this.#sendRequest({ ...request, ...rest })
    for (let isAgain = false; ; isAgain = true) {
      const nonce = this.#nonce
      const dpop = await prover.prove({ ...request, nonce })
      const answer = await this.#sendRequest({ ...request, headers: { ...request.headers, dpop }, ...rest })
      this.#nonce = headerOf(answer, 'dpop-nonce') ?? nonce
      const isForNonce = /error="?use_dpop_nonce\b/.test(headerOf(answer, 'www-authenticate') ?? '')
      if (answer.status !== 401 || !isForNonce || isAgain || this.#nonce === nonce) return answer
      await startOf(answer)
    }
  }

  #headers({ credentials, headers }: Pick<Delivery, 'credentials' | 'headers'>): Record<string, string> {
    const fields: Record<string, string> = {}
    for (const [name, value] of Object.entries(headers ?? {})) fields[name.toLowerCase()] = value
    Object.assign(fields, this.#own, (credentials ?? this.#credentials).headers)
    if (this.#sessionId !== undefined) fields[HEADERS.session] = this.#sessionId
    if (this.#revision !== undefined) fields[HEADERS.version] = this.#revision
    return fields
  }

  #messageHeaders(message: JsonObject, delivery: Delivery): HeaderFields {
    const fields = this.#headers(delivery)
    const { method, params } = message
    const revision = describedRevision(params)
    if (method === 'initialize') delete fields[HEADERS.session]
    if (revision !== undefined && typeof method === 'string') {
      fields[HEADERS.version] = revision
      fields[HEADERS.method] = method
      const name = isWireObject(params) ? params[NAMED_BY.get(method) ?? ''] : undefined
      if (typeof name === 'string') fields[HEADERS.name] = encodeHeaderValue(name)
    }
    fields['content-type'] = JSON_TYPE
    fields.accept = ACCEPTED
    // Lists are large; the answer of a call is usually too small to gain from compression.
    if (delivery.bounds !== CALL_BOUNDS) fields['accept-encoding'] = 'gzip, deflate, br'
    return fields
  }

  async #readJson(answer: PlainResponse, delivery: Delivery): Promise<void> {
    const check = messageCheck(delivery.bounds)
    const chunks: Uint8Array[] = []
    for await (const chunk of answer.body) {
      check(chunk)
      chunks.push(chunk)
    }
    const value = parseJson(Buffer.concat(chunks).toString('utf8'))
    if (this.#receiver?.receive(value, delivery) === 'unreadable')
      throw new Error('the answer is not a JSON-RPC message')
  }

  /** Reads a stream until the answer has arrived, and resumes a stream that broke off (MCP-27). */
  async #follow(first: PlainResponse, delivery: Delivery, isStandalone: boolean): Promise<void> {
    const place: StreamPlace = { lastId: undefined, retryMs: undefined }
    let failures = 0
    for (let answer: PlainResponse | undefined = first; ; ) {
      if (answer !== undefined) {
        failures = 0
        if (await this.#readStream(answer, delivery, place)) return
      }
      const canResume = isStandalone || place.lastId !== undefined
      if (!canResume || failures >= MAX_RESUMES) return
      const waitMs = place.retryMs ?? FIRST_PAUSE_MS * PAUSE_GROWTH ** failures
      await pause(waitMs, undefined, { signal: delivery.signal, ref: !isStandalone })
      const opened = await this.#open(delivery, place.lastId)
      if (opened === 'never') return
      answer = opened
      failures += 1
    }
  }

  /** Opens a stream of events; `undefined` if this attempt failed, `never` if the server has no such stream. */
  async #open(delivery: Delivery, lastId: string | undefined): Promise<PlainResponse | 'never' | undefined> {
    const headers = { ...this.#headers(delivery), accept: STREAM_TYPE }
    try {
      const resumption = lastId === undefined ? {} : { 'last-event-id': lastId }
      const answer = await this.#exchange('GET', { ...headers, ...resumption }, delivery)
      if (answer.status === 200 && mediaType(answer) === STREAM_TYPE) return answer
      await startOf(answer)
      return answer.status === 405 ? 'never' : undefined
    } catch (error) {
      if (delivery.signal.aborted) throw error
      return undefined
    }
  }

  /** Returns true once the stream has delivered the answer. */
  async #readStream({ body }: PlainResponse, delivery: Delivery, place: StreamPlace): Promise<boolean> {
    const { maxBytes, json } = delivery.bounds
    const parser = new EventParser(maxBytes)
    const decoder = new TextDecoder()
    let events = 0
    let excess: Error | undefined
    try {
      for await (const chunk of body) {
        for (const { event, data } of parser.read(decoder.decode(chunk, { stream: true }))) {
          const problem = tooMuchJson(Buffer.from(data), json)
          if (problem !== undefined) {
            excess = tooMuch(problem)
            throw excess
          }
          const value = event === 'message' && data !== '' ? parseJson(data) : undefined
          if (value !== undefined && this.#receiver?.receive(value, delivery) === 'answered') return true
          events += 1
          if (events % EVENTS_PER_TURN === 0) await nextTurn()
        }
      }
    } catch (error) {
      if (error instanceof EventTooLong) throw tooMuch(`is larger than ${maxBytes} bytes`)
      if (error === excess || delivery.signal.aborted) throw error
    }
    const { lastEventId, retryMs = 0 } = parser
    place.lastId = lastEventId ?? place.lastId
    if (retryMs >= MIN_RETRY_MS) place.retryMs = retryMs
    return false
  }

  /** Delivers the JSON-RPC error with which a server of 2026-07-28 explains a refusal; otherwise throws the refusal. */
  async #refuse(message: JsonObject, delivery: Delivery, answer: PlainResponse): Promise<void> {
    const { status } = answer
    const text = await startOf(answer)
    if (status === 400 && describedRevision(message.params) !== undefined) {
      const value = parseJson(text)
      const isAnswer = isWireObject(value) && isWireObject(value.error)
      if (isAnswer && this.#receiver?.receive(value, delivery) === 'answered') return
    }
    const challenge = headerOf(answer, 'www-authenticate') ?? ''
    const lacksScope = status === 403 && /error="?insufficient_scope\b/.test(challenge)
    const reason = unfollowedRedirect(this.#url, answer) ?? text
    throw new HttpRefusal(`Error POSTing to endpoint: ${reason}`, {
      ...{ status, text, retryAfterMs: readRetryAfter(headerOf(answer, 'retry-after')) },
      requiredScope: lacksScope ? /scope="([^"]*)"/.exec(challenge)?.[1] : undefined,
    })
  }
}

function sendByFetch(send: typeof fetch): SendRequest {
  return async ({ url, method, headers, body = null, signal }) => {
    const response = await send(url, { method, headers, body, signal, redirect: 'manual' })
    const fields = Object.fromEntries(response.headers)
    return { status: response.status, headers: fields, body: response.body ?? Readable.from([]) }
  }
}

/** The position from which a broken stream is resumed, and the server's retry time. */
interface StreamPlace {
  lastId: string | undefined
  retryMs: number | undefined
}

/** The revision in the metadata of a message (2026-07-28). */
function describedRevision(params: JsonObject[string] | undefined): string | undefined {
  const meta = isWireObject(params) ? params._meta : undefined
  const revision = isWireObject(meta) ? meta[META.protocolVersion] : undefined
  return typeof revision === 'string' ? revision : undefined
}

/** Checks the pieces of a JSON text as they arrive, before it is parsed. */
function messageCheck({ maxBytes, json }: MessageBounds): (chunk: Uint8Array) => void {
  const scan = new JsonScan({ ...json, maxOutermost: MAX_BATCH })
  let bytes = 0
  return (chunk) => {
    bytes += chunk.length
    scan.take(chunk)
    if (bytes > maxBytes) throw tooMuch(`is larger than ${maxBytes} bytes`)
    if (scan.problem !== undefined) throw tooMuch(scan.problem)
  }
}

function tooMuch(problem: string): Error {
  return fault('upstream_failed', 'The MCP server sent a message that is too large.', {
    developerMessage: `A message of the MCP server ${problem}.`,
  })
}

/** The beginning of a body. Reading it frees the connection for the next request. */
async function startOf({ body }: PlainResponse): Promise<string> {
  try {
    return (await readStart(body, MAX_REFUSAL_BYTES)).bytes.toString('utf8')
  } catch {
    return ''
  }
}

function headerOf({ headers }: PlainResponse, name: string): string | undefined {
  const value = headers[name]
  return typeof value === 'string' ? value : value?.[0]
}

function mediaType(answer: PlainResponse): string {
  const [type = ''] = (headerOf(answer, 'content-type') ?? '').split(';')
  return type.trim().toLowerCase()
}

function readRetryAfter(value: string | undefined): number | undefined {
  const seconds = Number(value ?? Number.NaN)
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds * 1000, MAX_RETRY_AFTER_MS) : undefined
}

function redirectTarget(url: URL, answer: PlainResponse): URL | undefined {
  if (!REDIRECTS.has(answer.status)) return undefined
  return URL.parse(headerOf(answer, 'location') ?? '', url.href) ?? undefined
}

/** True for the same scheme, host and port, or for HTTP to HTTPS on the default ports. The target must not have credentials. */
function isWithinOrigin(from: URL, to: URL): boolean {
  if (to.username !== '' || to.password !== '') return false
  if (from.origin === to.origin) return true
  const isUpgrade = from.protocol === 'http:' && to.protocol === 'https:'
  return isUpgrade && from.hostname === to.hostname && from.port === '' && to.port === ''
}

function unfollowedRedirect(url: URL, answer: PlainResponse): string | undefined {
  const target = redirectTarget(url, answer)
  if (target === undefined) return undefined
  const { origin, pathname } = target
  return `Redirect to ${origin}${pathname} not followed; use that URL as the endpoint if it is the intended server`
}
