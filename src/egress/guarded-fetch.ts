import { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import { isToolError } from '#kernel/base/errors'
import type { PlainAnswer, SendRequest } from '#sources/kit/source'
import type { EgressAgent } from './agent.ts'
import {
  headersForOtherOrigin,
  incomingHeaders,
  limitBody,
  outgoingHeaders,
  plainHeaders,
  tooLarge,
} from './bodies.ts'
import {
  type CheckedTarget,
  checkTarget,
  denied,
  type EgressPolicy,
  type EgressRules,
  NotConnected,
  readPolicy,
  reasonOf,
  systemLookup,
  targetOf,
  upstreamFailed,
} from './policy.ts'

/** `fetch` that reaches only what its policy lets it reach, and never sends a request twice. */
export interface GuardedFetch {
  (input: FetchInput, init?: FetchInit): Promise<Response>
  /** The same guard without the objects of `fetch`. */
  readonly send: SendRequest
  /**
   * The way to an address, step by step: what each found, in words. Throws where it ends, as a request would be refused or as the
   * network says it.
   */
  reach(url: URL, signal: AbortSignal): AsyncGenerator<string>
  /** Cuts every connection. */
  close(): Promise<void>
}

/**
 * The only way out (rule 33). Refusals are `egress_denied`; failures of the network, of time and of size are
 * `upstream_failed`, with `canRetry` only when no connection was made. Connections are never shared between policies.
 */
export function createGuardedFetch(policy: EgressPolicy): GuardedFetch {
  const rules = readPolicy(policy, systemLookup)
  let opened: Promise<EgressAgent> | undefined
  let isClosed = false
  // Loaded with the first request: many servers have no tool that makes one.
  const openAgent = (): Promise<EgressAgent> => {
    if (isClosed) throw upstreamFailed({ developerMessage: 'The server has closed its way out.' })
    opened ??= import('./agent.ts').then((room) => new room.EgressAgent(rules))
    return opened
  }
  const guardedFetch = async (input: FetchInput, init?: FetchInit): Promise<Response> => {
    const { request, head } = readRequest(input, init)
    const deadline = startDeadline(rules.timeoutMs, head.signal)
    const exchange: Exchange = { rules, openAgent, deadline, hops: 0 }
    try {
      // Looked at before the body is read, so that a refused request costs nothing.
      targetOf(head.url)
      const body = await deadline.race(readRequestBody(request, init))
      return await follow({ ...head, body }, exchange)
    } catch (error) {
      deadline.clear()
      throw toFailure(error, head.signal, exchange)
    }
  }
  const sendPlain: SendRequest = async ({ url, method, headers, body = null, signal }) => {
    const deadline = startDeadline(rules.timeoutMs, signal)
    const exchange: Exchange = { rules, openAgent, deadline, hops: 0 }
    try {
      const answer = await send({ url, method, headers: plainHeaders(headers), body }, exchange)
      return toPlainAnswer(answer, exchange, signal)
    } catch (error) {
      deadline.clear()
      throw toFailure(error, signal, exchange)
    }
  }
  const reach = async function* (url: URL, signal: AbortSignal): AsyncGenerator<string> {
    const target = await checkTarget(url, rules)
    yield `${url.hostname} is ${target.addresses.join(', ')}`
    yield* (await import('./agent.ts')).reachTarget(url, target, signal)
  }
  const close = async (): Promise<void> => {
    isClosed = true
    await (await opened)?.close()
  }
  return Object.assign(guardedFetch, { send: sendPlain, reach, close })
}

type Answer = Dispatcher.ResponseData<unknown>

interface Exchange {
  readonly rules: EgressRules
  openAgent(): Promise<EgressAgent>
  readonly deadline: Deadline
  /** Redirects followed so far. */
  hops: number
}

async function follow(first: OutgoingRequest, exchange: Exchange): Promise<Response> {
  let request = first
  for (;;) {
    const answer = await send({ ...request, headers: Object.fromEntries(request.headers) }, exchange)
    const next = nextRequest(request, answer)
    if (next === undefined) return toResponse(request, answer, exchange)
    answer.body.on('error', () => undefined).destroy()
    if (exchange.hops >= exchange.rules.maxRedirects)
      throw denied(`More than ${exchange.rules.maxRedirects} redirects (egress.maxRedirects).`)
    exchange.hops += 1
    request = next
  }
}

interface Sending {
  readonly url: URL
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer | Readable | string | null
}

async function send(request: Sending, exchange: Exchange): Promise<Answer> {
  const { openAgent, deadline, rules } = exchange
  const { url, method, headers, body } = request
  const target: CheckedTarget = await deadline.race(checkTarget(url, rules))
  const agent = await openAgent()
  const answering = agent.request(target, {
    origin: url.origin,
    path: `${url.pathname}${url.search}`,
    method,
    headers,
    body,
    signal: deadline.signal,
  })
  return await deadline.race(answering, (late) => late.body.on('error', () => undefined).destroy())
}

const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304])

function toResponse(request: OutgoingRequest, answer: Answer, exchange: Exchange): Response {
  const { deadline, rules, hops } = exchange
  const { statusCode: status, statusText, body } = answer
  try {
    const headers = incomingHeaders(answer.headers)
    const hasBody = request.method !== 'HEAD' && !WITHOUT_BODY.has(status)
    if (hasBody && Number(headers.get('content-length')) > rules.maxResponseBytes)
      throw tooLarge(rules.maxResponseBytes)
    const limits = {
      contentEncoding: headers.get('content-encoding'),
      maxResponseBytes: rules.maxResponseBytes,
    }
    const stream = hasBody
      ? limitBody(body, limits, {
          toFailure: (error) => toFailure(error, request.signal, { ...exchange, hops: 1 }),
          settled: deadline.clear,
        })
      : null
    if (stream === null) {
      body.on('error', () => undefined).resume()
      deadline.clear()
    }
    const response = new Response(stream, { status, statusText, headers })
    return Object.defineProperties(response, {
      url: { value: withoutFragment(request.url) },
      redirected: { value: hops > 0 },
    })
  } catch (error) {
    body.on('error', () => undefined).destroy()
    throw error
  }
}

function toPlainAnswer(answer: Answer, exchange: Exchange, caller: AbortSignal): PlainAnswer {
  const { statusCode: status, headers } = answer
  return { status, headers, body: plainBody(answer, exchange, caller) }
}

/** Within the limits of `limitBody`, which also knows the encodings that nobody asked for here. */
async function* plainBody(
  { headers, body }: Answer,
  exchange: Exchange,
  caller: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const { deadline, rules } = exchange
  const toReaders = (error: unknown): unknown => toFailure(error, caller, { ...exchange, hops: 1 })
  try {
    const contentEncoding = String(headers['content-encoding'] ?? '')
    if (contentEncoding !== '') {
      const limits = { contentEncoding, maxResponseBytes: rules.maxResponseBytes }
      yield* limitBody(body, limits, { toFailure: toReaders, settled: deadline.clear })
      return
    }
    let bytes = 0
    const chunks: AsyncIterable<Uint8Array> = body
    for await (const chunk of chunks) {
      bytes += chunk.length
      if (bytes > rules.maxResponseBytes) throw tooLarge(rules.maxResponseBytes)
      yield chunk
    }
  } catch (error) {
    throw toReaders(error)
  } finally {
    deadline.clear()
  }
}

function withoutFragment(url: URL): string {
  return url.href.slice(0, url.href.length - url.hash.length)
}

/** What the caller gets for an error: its own abort reason, our faults as they are, everything else as one. */
function toFailure(error: unknown, caller: AbortSignal, { deadline, hops, rules }: Exchange): unknown {
  if (isToolError(error)) return error
  if (caller.aborted) return caller.reason
  if (deadline.hasPassed)
    return upstreamFailed({
      developerMessage: `No full answer within ${rules.timeoutMs} ms (egress.timeoutMs).`,
    })
  if (error instanceof NotConnected) {
    const { cause } = error
    return upstreamFailed({
      developerMessage: `Not connected: ${reasonOf(cause)}.`,
      canRetry: hops === 0,
      cause,
    })
  }
  return upstreamFailed({ developerMessage: `The exchange broke off: ${reasonOf(error)}.`, cause: error })
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
const FOLLOWED_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD'])

/** The part of an answer that says where to go on. */
interface RedirectAnswer {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
}

/**
 * The request that a redirect asks for; `undefined` when the answer is the caller's. An unsafe method is
 * not sent again, so its redirect is an answer like any other (rule 33).
 */
export function nextRequest(request: OutgoingRequest, answer: RedirectAnswer): OutgoingRequest | undefined {
  const { location } = answer.headers
  if (!REDIRECTS.has(answer.statusCode) || location === undefined || request.redirect === 'manual')
    return undefined
  if (request.redirect === 'error') throw denied('The answer is a redirect, and the request refuses them.')
  if (!FOLLOWED_METHODS.has(request.method)) return undefined
  const url = typeof location === 'string' ? URL.parse(location, request.url.href) : null
  if (url === null) throw denied('The redirect has no location that can be read.')
  const headers = url.origin === request.url.origin ? request.headers : headersForOtherOrigin(request.headers)
  return { ...request, url, headers }
}

/** A request as it leaves. */
export interface OutgoingRequest {
  readonly url: URL
  readonly method: string
  readonly headers: Headers
  readonly body: Buffer | Readable | null
  readonly redirect: 'follow' | 'manual' | 'error'
  readonly signal: AbortSignal
}

type FetchInput = Parameters<typeof fetch>[0]
type FetchInit = Parameters<typeof fetch>[1]

interface ReadRequest {
  /** Its body is still to be read. */
  readonly request: Request
  readonly head: Omit<OutgoingRequest, 'body'>
}

/** Reads what `fetch` takes. Texts of its errors would repeat URLs and headers, so they get our own. */
function readRequest(input: FetchInput, init: FetchInit): ReadRequest {
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
async function readRequestBody(request: Request, init: FetchInit): Promise<Buffer | Readable | null> {
  if (request.body === null) return null
  const given: unknown = init?.body
  const isStream =
    given instanceof ReadableStream ||
    (typeof given === 'object' && given !== null && Symbol.asyncIterator in given)
  return isStream ? Readable.from(request.body) : Buffer.from(await request.arrayBuffer())
}

/** One end for everything that belongs to a request: the caller's abort, or the time limit. */
interface Deadline {
  readonly signal: AbortSignal
  readonly hasPassed: boolean
  /** Gives the value, or rejects as soon as the signal does; late values are handed to `discard`. */
  race<Value>(work: Promise<Value>, discard?: (late: Value) => void): Promise<Value>
  clear(): void
}

/** `AbortSignal.any` would do the same with weak references, which cost more than the rest of a small request. */
function startDeadline(timeoutMs: number, caller: AbortSignal): Deadline {
  const ending = new AbortController()
  const { signal } = ending
  let hasPassed = false
  const leave = (): void => ending.abort(caller.reason)
  const timer = setTimeout(() => {
    hasPassed = true
    ending.abort(new Error('the time is over'))
  }, timeoutMs)
  timer.unref()
  if (caller.aborted) leave()
  else caller.addEventListener('abort', leave, { once: true })
  return {
    signal,
    get hasPassed() {
      return hasPassed && !caller.aborted
    },
    async race(work, discard) {
      const aborted = Promise.withResolvers<never>()
      const abort = (): void => {
        work.then(discard, () => undefined)
        aborted.reject(signal.reason)
      }
      if (signal.aborted) abort()
      else signal.addEventListener('abort', abort, { once: true })
      try {
        return await Promise.race([work, aborted.promise])
      } finally {
        signal.removeEventListener('abort', abort)
        aborted.promise.catch(() => undefined)
      }
    },
    clear: () => {
      clearTimeout(timer)
      caller.removeEventListener('abort', leave)
    },
  }
}
