import type { Dispatcher } from 'undici'
import { isToolError } from '#core/errors'
import { type CheckedTarget, checkTarget, targetOf } from './check-target.ts'
import { type Deadline, startDeadline } from './deadline.ts'
import type { EgressAgent } from './egress-agent.ts'
import { denied, NotConnected, reasonOf, upstreamFailed } from './egress-fault.ts'
import { type EgressPolicy, type EgressRules, readPolicy } from './egress-policy.ts'
import {
  type FetchInit,
  type FetchInput,
  type OutgoingRequest,
  readBody,
  readRequest,
} from './read-request.ts'
import { nextRequest } from './redirect.ts'
import { incomingHeaders } from './request-headers.ts'
import { limitBody, tooLarge } from './response-body.ts'
import { systemLookup } from './system-lookup.ts'

/** `fetch` that reaches only what its policy lets it reach, and never sends a request twice. */
export interface GuardedFetch {
  (input: FetchInput, init?: FetchInit): Promise<Response>
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
    opened ??= import('./egress-agent.ts').then((room) => new room.EgressAgent(rules))
    return opened
  }
  const guardedFetch = async (input: FetchInput, init?: FetchInit): Promise<Response> => {
    const { request, head } = readRequest(input, init)
    const deadline = startDeadline(rules.timeoutMs, head.signal)
    const exchange: Exchange = { rules, openAgent, deadline, hops: 0 }
    try {
      // Looked at before the body is read, so that a refused request costs nothing.
      targetOf(head.url)
      const body = await deadline.race(readBody(request, init))
      return await follow({ ...head, body }, exchange)
    } catch (error) {
      deadline.clear()
      throw explain(error, head.signal, exchange)
    }
  }
  const close = async (): Promise<void> => {
    isClosed = true
    await (await opened)?.close()
  }
  return Object.assign(guardedFetch, { close })
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
    const answer = await send(request, exchange)
    const next = nextRequest(request, answer)
    if (next === undefined) return toResponse(request, answer, exchange)
    answer.body.on('error', () => undefined).destroy()
    if (exchange.hops >= exchange.rules.maxRedirects)
      throw denied(`More than ${exchange.rules.maxRedirects} redirects (egress.maxRedirects).`)
    exchange.hops += 1
    request = next
  }
}

async function send(request: OutgoingRequest, exchange: Exchange): Promise<Answer> {
  const { openAgent, deadline, rules } = exchange
  const { url, method, headers, body } = request
  const target: CheckedTarget = await deadline.race(checkTarget(url, rules))
  const agent = await openAgent()
  const answering = agent.request(target, {
    origin: url.origin,
    path: `${url.pathname}${url.search}`,
    method,
    headers: Object.fromEntries(headers),
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
          explain: (error) => explain(error, request.signal, { ...exchange, hops: 1 }),
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

function withoutFragment(url: URL): string {
  return url.href.slice(0, url.href.length - url.hash.length)
}

/** What the caller gets for an error: its own abort reason, our faults as they are, everything else as one. */
function explain(error: unknown, caller: AbortSignal, { deadline, hops, rules }: Exchange): unknown {
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
