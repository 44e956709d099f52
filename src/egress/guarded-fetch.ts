import { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import type { MaybePromise } from '#kernel/base/waiting'
import type { PlainRequest, PlainResponse, SendRequest } from '#sources/kit/source'
import type { EgressAgent } from './agent.ts'
import {
  headersForOtherOrigin,
  incomingHeaders,
  limitBody,
  outgoingHeaders,
  plainHeaders,
  tooLarge,
} from './bodies.ts'
import { PlainExchange } from './plain-exchange.ts'
import {
  type CheckedTarget,
  checkTarget,
  denied,
  type EgressPolicy,
  type EgressRules,
  readPolicy,
  targetOf,
  toFailure,
  upstreamFailed,
} from './policy.ts'

/**
 * A `fetch` that reaches only the addresses that its policy allows (rule 33). All outgoing requests of sources, tools, authentication
 * and webhooks use it.
 * Invariant: a request is never sent twice. Refusals are `egress_denied`; network errors, timeouts and oversized answers are
 * `upstream_failed`, with `canRetry` only if no connection was made.
 */

export interface GuardedFetch {
  (input: FetchInput, init?: FetchInit): Promise<Response>
  /** Sends a request without creating `Request` and `Response` objects, and does not follow redirects. */
  readonly send: SendRequest
  /** Tries to connect and reports each step as text. If a step fails, throws as a request would. */
  reach(url: URL, signal: AbortSignal): AsyncGenerator<string>
  close(): Promise<void>
}

export function createGuardedFetch(policy: EgressPolicy): GuardedFetch {
  const rules = readPolicy(policy)
  let opening: Promise<EgressAgent> | undefined
  let agent: EgressAgent | undefined
  let isClosed = false
  // The agent is loaded with the first request, because many servers have no tool that makes requests.
  const openAgent = (): MaybePromise<EgressAgent> => {
    if (isClosed) throw upstreamFailed({ developerMessage: 'The server has closed its connections.' })
    opening ??= import('./agent.ts').then(({ EgressAgent }) => {
      agent = new EgressAgent(rules)
      return agent
    })
    return agent ?? opening
  }
  /** Runs one exchange with its deadline, which is cleared when the body of the answer ends. */
  const runExchange = async <Result>(caller: AbortSignal, run: (exchange: Exchange) => Promise<Result>) => {
    const deadline = startDeadline(rules.timeoutMs, caller)
    const exchange: Exchange = { rules, openAgent, deadline, hops: 0 }
    try {
      return await run(exchange)
    } catch (error) {
      deadline.clear()
      throw toFailure(error, factsOf(exchange, caller))
    }
  }
  const guardedFetch = async (input: FetchInput, init?: FetchInit): Promise<Response> => {
    const { request, head } = readRequest(input, init)
    return await runExchange(head.signal, async (exchange) => {
      const body = await exchange.deadline.race(readRequestBody(request, init))
      return await follow({ ...head, body }, exchange)
    })
  }
  const sendPlain: SendRequest = async (request) => {
    const exchange = new PlainExchange(rules, request.signal)
    try {
      dispatchPlain(request, exchange, { rules, openAgent })
    } catch (error) {
      exchange.fail(error)
    }
    const { status, headers } = await exchange.start
    return { status, headers, body: plainBody(headers, exchange, { rules, caller: request.signal }) }
  }
  const reach = async function* (url: URL, signal: AbortSignal): AsyncGenerator<string> {
    const target = await checkTarget(url, rules)
    yield `${url.hostname} is ${target.addresses.join(', ')}`
    yield* (await import('./agent.ts')).reachTarget(url, target, signal)
  }
  const close = async (): Promise<void> => {
    isClosed = true
    await (await opening)?.close()
  }
  return Object.assign(guardedFetch, { send: sendPlain, reach, close })
}

interface EgressContext {
  readonly rules: EgressRules
  openAgent(): MaybePromise<EgressAgent>
}

/** If the address and the agent are known, the request is written before this function returns. */
function dispatchPlain(
  request: PlainRequest,
  exchange: PlainExchange,
  { rules, openAgent }: EgressContext,
): void {
  const { url, method, body = null } = request
  const headers = plainHeaders(request.headers)
  const dispatch = (target: CheckedTarget, agent: EgressAgent): void => {
    if (exchange.hasEnded) return
    const path = `${url.pathname}${url.search}`
    agent.dispatch(target, { origin: url.origin, path, method, headers, body }, exchange)
  }
  const target = checkTarget(url, rules)
  const agent = openAgent()
  if (!(target instanceof Promise || agent instanceof Promise)) dispatch(target, agent)
  else
    Promise.all([target, agent])
      .then((ready) => dispatch(...ready))
      .catch((error: unknown) => exchange.fail(error))
}

/** The body within the size limit. `limitBody` decodes it, because a server may use an encoding that was not requested. */
function plainBody(
  headers: PlainResponse['headers'],
  exchange: PlainExchange,
  { rules, caller }: { readonly rules: EgressRules; readonly caller: AbortSignal },
): PlainResponse['body'] {
  const contentEncoding = String(headers['content-encoding'] ?? '')
  if (contentEncoding === '') return exchange
  return limitBody(Readable.from(exchange, { objectMode: false }), {
    contentEncoding,
    maxResponseBytes: rules.maxResponseBytes,
    toFailure: (error) => toFailure(error, { caller, hasPassed: false, isFirst: false, rules }),
    settled: () => undefined,
  })
}

type Answer = Dispatcher.ResponseData<unknown>

interface Exchange extends EgressContext {
  readonly deadline: Deadline
  /** Number of redirects followed. */
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

interface PreparedRequest extends Pick<OutgoingRequest, 'url' | 'method'> {
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer | Readable | string | null
}

async function send(request: PreparedRequest, exchange: Exchange): Promise<Answer> {
  const { openAgent, deadline, rules } = exchange
  const { url, method, headers, body } = request
  deadline.signal.throwIfAborted()
  const checking = checkTarget(url, rules)
  const target = checking instanceof Promise ? await deadline.race(checking) : checking
  const agent = await openAgent()
  const response = agent.request(target, {
    origin: url.origin,
    path: `${url.pathname}${url.search}`,
    method,
    headers,
    body,
    signal: deadline.signal,
  })
  return await deadline.race(response, (late) => late.body.on('error', () => undefined).destroy())
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
    const stream = hasBody
      ? limitBody(body, {
          contentEncoding: headers.get('content-encoding'),
          maxResponseBytes: rules.maxResponseBytes,
          toFailure: (error) => toFailure(error, { ...factsOf(exchange, request.signal), isFirst: false }),
          settled: deadline.clear,
        })
      : null
    if (stream === null) {
      body.on('error', () => undefined).resume()
      deadline.clear()
    }
    const response = new Response(stream, { status, statusText, headers })
    const { href, hash } = request.url
    return Object.defineProperties(response, {
      url: { value: href.slice(0, href.length - hash.length) },
      redirected: { value: hops > 0 },
    })
  } catch (error) {
    body.on('error', () => undefined).destroy()
    throw error
  }
}

function factsOf({ deadline, hops, rules }: Exchange, caller: AbortSignal) {
  return { caller, hasPassed: deadline.hasPassed, isFirst: hops === 0, rules }
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
const FOLLOWED_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD'])

/**
 * The request that a redirect leads to; `undefined` if the caller gets the answer itself. A request with an unsafe method is not sent
 * again, so its redirect is an answer like any other (rule 33).
 */
export function nextRequest(
  request: OutgoingRequest,
  answer: Pick<Answer, 'statusCode' | 'headers'>,
): OutgoingRequest | undefined {
  const { location } = answer.headers
  if (!REDIRECTS.has(answer.statusCode) || location === undefined || request.redirect === 'manual')
    return undefined
  if (request.redirect === 'error') throw denied('The request does not allow redirects, but got one.')
  if (!FOLLOWED_METHODS.has(request.method)) return undefined
  const url = typeof location === 'string' ? URL.parse(location, request.url.href) : null
  if (url === null) throw denied('The redirect has no readable location.')
  const headers = url.origin === request.url.origin ? request.headers : headersForOtherOrigin(request.headers)
  return { ...request, url, headers }
}

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

/** Reads the arguments of `fetch`, except for the body. Platform errors are replaced, because their texts may contain URLs and headers. */
function readRequest(input: FetchInput, init: FetchInit) {
  const url = URL.parse(input instanceof Request ? input.url : String(input))
  if (url === null) throw denied('The URL cannot be read; it must be absolute.')
  // The target is checked before `Request` is created, because a URL with credentials would make that fail.
  targetOf(url)
  const request = makeRequest(input, init)
  if (request.integrity !== '') throw new TypeError('fetch: `integrity` is not supported here.')
  const { method, redirect } = request
  // The caller's signal is used, because the signal of the request object ends with that object.
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

/** A stream is passed on unread; any other body is read first, so that its length is known. */
async function readRequestBody(request: Request, init: FetchInit): Promise<Buffer | Readable | null> {
  if (request.body === null) return null
  const body: unknown = init?.body
  const isStream =
    body instanceof ReadableStream ||
    (typeof body === 'object' && body !== null && Symbol.asyncIterator in body)
  return isStream ? Readable.from(request.body) : Buffer.from(await request.arrayBuffer())
}

/** Ends everything that belongs to a request when the caller aborts or the time limit passes. */
interface Deadline {
  readonly signal: AbortSignal
  readonly hasPassed: boolean
  /** Resolves with the work, or rejects when the signal aborts; a late value goes to `discard`. */
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
    ending.abort(new Error('the time limit has passed'))
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
