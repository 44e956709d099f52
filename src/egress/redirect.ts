import { denied } from './egress-fault.ts'
import type { OutgoingRequest } from './read-request.ts'
import { headersForOtherOrigin } from './request-headers.ts'

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
const FOLLOWED_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD'])

/** The part of an answer that says where to go on. */
export interface RedirectAnswer {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
}

/**
 * The request that a redirect asks for; `undefined` when the answer is the caller's. Rule 33: an unsafe method is
 * not sent again, so its redirect is an answer like any other.
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
