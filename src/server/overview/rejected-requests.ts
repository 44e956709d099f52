/*
 * Serves rejected requests to operators (`GET /admin/calls/rejected`), and counts them for statistics and usage.
 * Used by the admin API and the overview pages. Invariant: an operator of one tenant sees only rejections of that tenant.
 */

import { LIST_REJECTED_REQUESTS, type RejectedRequest } from '#admin-api/calls'
import type { Clock } from '#kernel/base/clock'
import { REFUSAL_CODES, type RefusalCode } from '#kernel/base/errors'
import { type OperatorAccess, visibleTenant } from '#server/admin/access'
import { badRequest, serveOperation, timeOf } from '#server/admin/admin-route'
import { type BaseOf, toCallFilter } from '#server/admin/call-filter'
import type { ServerRoute } from '#server/http/router'
import type { RejectionStore, StoredRejection } from '#store/rejections'

interface RejectionRoutesOptions {
  readonly rejections: RejectionStore
  readonly clock: Clock
  readonly baseOf?: BaseOf
}

export function createRejectionRoutes(
  access: OperatorAccess,
  { rejections, clock, baseOf }: RejectionRoutesOptions,
): readonly ServerRoute[] {
  return [
    serveOperation(access, LIST_REJECTED_REQUESTS, async ({ principal: reader, query }) => {
      const { before, limit } = query
      const { principal, tool, sinceMs, untilMs, ...filter } = toCallFilter(query, clock.nowMs(), baseOf)
      const tenant = visibleTenant(reader) ?? filter.tenant
      const code = readCode(query.code)
      const wanted = { tenant, principal, tool, sinceMs, untilMs, before, limit, code }
      const found = await rejections.list(wanted)
      const next = found.length < limit ? null : (found.at(-1)?.no ?? null)
      return { rejected: found.map(renderRejection), next }
    }),
  ]
}

function readCode(text: string | undefined): RefusalCode | undefined {
  const code = REFUSAL_CODES.find((known) => known === text)
  if (code !== undefined || text === undefined) return code
  throw badRequest(`code: expected one of ${REFUSAL_CODES.join(', ')}.`)
}

function renderRejection({ lastAtMs, tool, ...row }: StoredRejection): RejectedRequest {
  const { no, tenant, principal, code, requests, message } = row
  const shown = tool === '' ? null : tool
  return { no, tenant, principal, tool: shown, code, requests, last_at: timeOf(lastAtMs), message }
}

/** Counts the rejected requests of a time span by code and by bucket of the span. */
export async function tallyRejections(
  rejections: Pick<RejectionStore, 'count'>,
  query: Parameters<RejectionStore['count']>[0],
) {
  const [codes, buckets] = [new Map<string, number>(), new Map<number, number>()]
  for (const { code, bucket, requests } of await rejections.count(query)) {
    codes.set(code, (codes.get(code) ?? 0) + requests)
    buckets.set(bucket, (buckets.get(bucket) ?? 0) + requests)
  }
  return { codes: Object.fromEntries([...codes].toSorted(([, left], [, right]) => right - left)), buckets }
}
