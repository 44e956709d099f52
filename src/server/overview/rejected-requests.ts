/** Rejected requests as operators see them: `GET /admin/calls/rejected`, and their counts for statistics and usage. */

import type { Clock } from '#kernel/base/clock'
import { REFUSAL_CODES, type RefusalCode } from '#kernel/base/errors'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { adminRoute, badRequest, NO_STORE, type OperatorAccess, tenantWithin } from '#server/admin/access'
import { type BaseOf, readCallFilter } from '#server/admin/call-filter'
import { jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import type { RejectionStore, StoredRejection } from '#store/rejections'

const SCOPE = 'admin:calls'

interface RejectionRoutesOptions {
  readonly rejections: RejectionStore
  readonly clock: Clock
  readonly baseOf?: BaseOf
}

export function createRejectionRoutes(
  { rejections, clock, baseOf }: RejectionRoutesOptions,
  access: OperatorAccess,
): readonly ServerRoute[] {
  const list = async ({ principal, query }: HttpRequest): Promise<HttpReply> => {
    access.requireScope(principal, SCOPE)
    const { tenant, limit, before, ...filter } = readCallFilter(query, clock.nowMs(), baseOf)
    const found = await rejections.list({
      ...{ tenant: tenantWithin(principal) ?? tenant, principal: filter.principal, tool: filter.tool },
      ...{ sinceMs: filter.sinceMs, untilMs: filter.untilMs, before, limit },
      code: readCode(query.get('code') || undefined),
    })
    const next = found.length < limit ? null : (found.at(-1)?.no ?? null)
    return jsonReply(200, { rejected: found.map(renderRejection), next }, NO_STORE)
  }
  return [adminRoute(access, 'GET', '/admin/calls/rejected', list)]
}

function readCode(asked: string | undefined): RefusalCode | undefined {
  const code = REFUSAL_CODES.find((known) => known === asked)
  if (code !== undefined || asked === undefined) return code
  throw badRequest(`\`code\` is one of ${REFUSAL_CODES.join(', ')}.`)
}

/** One row of `collet calls --state rejected`. */
export type RenderedRejection = ReturnType<typeof renderRejection>

function renderRejection({
  no,
  tenant,
  principal,
  tool,
  code,
  requests,
  lastAtMs,
  message,
}: StoredRejection) {
  const at = new Date(lastAtMs).toISOString()
  return { no, tenant, principal, tool: tool === '' ? null : tool, code, requests, last_at: at, message }
}

/** Rejected requests of a time: in all, by code, and by part of the time. */
export async function tallyRejections(
  rejections: Pick<RejectionStore, 'count'>,
  query: Parameters<RejectionStore['count']>[0],
) {
  const [codes, buckets] = [new Map<string, number>(), new Map<number, number>()]
  for (const { code, bucket, requests } of await rejections.count(query)) {
    codes.set(code, (codes.get(code) ?? 0) + requests)
    buckets.set(bucket, (buckets.get(bucket) ?? 0) + requests)
  }
  return { codes: Object.fromEntries([...codes].toSorted(([, one], [, other]) => other - one)), buckets }
}
