import { isToolError } from '#kernel/base/errors'
import type { Gateway } from '#kernel/call/gateway'
import { CALL_ID_HEADER, callIdToHeader, trustHeader } from '#protocols/call-wire'
import type { HttpRoute } from '#protocols/http-exchange'
import type { ResultPart } from '#results/read'
import { readQuery, readResult } from '#results/recorded'
import { jsonReply, refusalReply, refuseWith, unreadForm } from './codec-response.ts'
import type { OtcSettings } from './settings.ts'

/*
 * GET `/calls/{id}/result`: reads a part of the recorded result of one of the caller's calls. `routes.ts` registers it.
 * Invariant: as for GET `/calls/{id}`, other callers' calls and unknown ones get the same answer.
 */

/** The default size for a model. */
const DEFAULT_MAX_BYTES = 32_000
const MIN_MAX_BYTES = 200

export function resultRoute(gateway: Gateway, settings: OtcSettings): HttpRoute {
  return {
    method: 'GET',
    path: '/calls/:id/result',
    access: 'authenticated',
    body: 'never',
    refuse: refuseWith(settings),
    handle: async ({ principal, params, query, headers }) => {
      const form = unreadForm(headers, settings)
      try {
        await gateway.admit(principal)
        const root = query.get('part') === 'content' ? 'content' : 'value'
        const address = { callId: params.id ?? '', root, request: readQuery(query) } as const
        const maxBytes = maxBytesIn(query)
        const part = await readResult(gateway, principal, { ...address, maxBytes })
        const { callId, untrusted } = part
        const body = JSON.stringify({ $schema: form.schemaId, ...membersOf(part) })
        const sent = { [CALL_ID_HEADER]: callIdToHeader(callId), 'cache-control': 'no-store' }
        return jsonReply(200, body, { ...sent, ...trustHeader(untrusted || undefined) })
      } catch (error) {
        if (!isToolError(error)) throw error
        return refusalReply(form, error, settings)
      }
    },
  }
}

/** The wire members of a part. JSON leaves out members that are `undefined`. */
function membersOf(part: ResultPart & { readonly callId: string }): object {
  const { callId, path, type, unit, offset, count, total, next, indexes, leftOut, value } = part
  return {
    call_id: callId,
    path,
    type,
    unit,
    offset,
    count,
    total,
    next_offset: next,
    indexes,
    left_out: leftOut.length === 0 ? undefined : leftOut,
    value,
  }
}

/** Maximum bytes of the value; 0 in the query means no limit. */
function maxBytesIn(query: URLSearchParams): number {
  const asked = Number(query.get('max_bytes') ?? DEFAULT_MAX_BYTES)
  if (asked === 0) return Number.MAX_SAFE_INTEGER
  return Number.isSafeInteger(asked) ? Math.max(MIN_MAX_BYTES, asked) : DEFAULT_MAX_BYTES
}
