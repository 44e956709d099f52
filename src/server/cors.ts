import type { HttpReply } from '#protocols/http-exchange'

const READABLE =
  'collet-call-id, collet-content-trust, collet-error-code, collet-run, etag, openwop-idempotent-replay, oxp-version, retry-after, traceparent, www-authenticate, x-should-retry'
const SENDABLE =
  'authorization, collet-authorization, collet-run, collet-secret, collet-session, collet-user, content-type, idempotency-key, if-none-match, last-event-id, otc-api-key, oxp-api-key, oxp-version, traceparent, tracestate, x-api-key'

/** Headers for a server with configured origins; `origin` is the one of this request, if it is one of them. */
export function corsHeaders(origin: string | undefined): readonly string[] {
  if (origin === undefined) return ['vary', 'origin']
  return ['vary', 'origin', 'access-control-allow-origin', origin, 'access-control-expose-headers', READABLE]
}

/** The answer to a browser that asks before it calls. */
export function preflightReply(allow: string): HttpReply {
  return {
    status: 204,
    headers: {
      'access-control-allow-methods': allow,
      'access-control-allow-headers': SENDABLE,
      'access-control-max-age': '600',
    },
    body: undefined,
  }
}
