/**
 * Groups failed calls and rejected requests by tool, error code and message, for operators who ask why calls fail. Messages that
 * differ only in ids, numbers or quoted values are one group. If there are very many errors, only the newest are counted.
 */
import { type ErrorGroup, LIST_CALL_ERRORS } from '#admin-api/call-views'
import type { Clock } from '#kernel/base/clock'
import { REFUSAL_CODES } from '#kernel/base/errors'
import { type OperatorAccess, visibleTenant } from '#server/admin/access'
import { badRequest, serveOperation, timeOf } from '#server/admin/admin-route'
import { type BaseOf, toCallFilter } from '#server/admin/call-filter'
import type { ServerRoute } from '#server/http/router'
import type { CallFilter } from '#store/call-filter'
import { errorLine, patternOfError } from '#store/calls/error-text'
import type { Store } from '#store/collet-store'
import { readUntil } from './find-calls.ts'

const DEFAULT_SPAN_MS = 86_400_000
const MAX_GROUPS = 5_000
const MAX_REJECTED = 10_000
const REJECTED_AT_ONCE = 1_000

interface ErrorRoutesOptions {
  readonly store: Pick<Store, 'failures' | 'rejections'>
  readonly clock: Clock
  readonly baseOf?: BaseOf
}

export function createErrorRoutes(
  access: OperatorAccess,
  { store, clock, baseOf }: ErrorRoutesOptions,
): readonly ServerRoute[] {
  return [
    serveOperation(access, LIST_CALL_ERRORS, async ({ principal, query }) => {
      const nowMs = clock.nowMs()
      const requested = toCallFilter(query, nowMs, baseOf)
      const untilMs = requested.untilMs ?? nowMs
      const sinceMs = requested.sinceMs ?? untilMs - DEFAULT_SPAN_MS
      if (sinceMs >= untilMs) throw badRequest('since: expected a time before `until`.')
      const filter = { ...requested, tenant: visibleTenant(principal) ?? requested.tenant, sinceMs, untilMs }
      const groups = new ErrorGroups({ sinceMs, untilMs, buckets: query.buckets })
      const isRead = await readUntil(clock, async (before) => {
        const { rows, next } = await store.failures({ ...filter, before })
        for (const { error, createdAtMs, ...call } of rows)
          groups.add({ ...call, ...error, kind: 'failed', requests: 1, atMs: createdAtMs })
        return next
      })
      const isWhole = await addRejected(store, filter, groups)
      return {
        since: timeOf(sinceMs),
        until: timeOf(untilMs),
        bucket_ms: groups.bucketMs,
        errors: groups.list(query.limit),
        whole: isRead && isWhole && groups.isWhole,
      }
    }),
  ]
}

/** Rejected requests are counted and not recorded, so a search for an id or a message leaves them out. */
async function addRejected(
  { rejections }: Pick<Store, 'rejections'>,
  { tenant, principal, tool, sinceMs, untilMs, search = {} }: Omit<CallFilter, 'limit'>,
  groups: ErrorGroups,
): Promise<boolean> {
  const { code: searched, ...others } = search
  const code = REFUSAL_CODES.find((known) => known === searched)
  if (Object.keys(others).length > 0 || code !== searched) return true
  const filter = { tenant, principal, tool, sinceMs, untilMs, code }
  for (let read = 0, before: number | undefined; read < MAX_REJECTED; read += REJECTED_AT_ONCE) {
    const rows = await rejections.list({ ...filter, before, limit: REJECTED_AT_ONCE })
    for (const { lastAtMs, ...row } of rows) groups.add({ ...row, kind: 'rejected', atMs: lastAtMs })
    before = rows.at(-1)?.no
    if (rows.length < REJECTED_AT_ONCE) return true
  }
  return false
}

interface OneError extends Pick<ErrorGroup, 'kind' | 'code'> {
  /** Full id of the tool; empty if the caller cannot see it. */
  readonly tool: string
  readonly tenant: string
  readonly principal: string
  readonly message: string
  readonly requests: number
  readonly atMs: number
  readonly record?: string
}

interface Group {
  readonly newest: OneError
  readonly firstMs: number
  readonly count: number
}

class ErrorGroups {
  readonly bucketMs: number
  readonly #sinceMs: number
  readonly #buckets: number
  readonly #groups = new Map<string, Group & { readonly buckets: number[]; readonly callers: Set<string> }>()
  isWhole = true

  constructor({ sinceMs, untilMs, buckets }: Readonly<Record<'sinceMs' | 'untilMs' | 'buckets', number>>) {
    this.bucketMs = Math.max(1, Math.ceil((untilMs - sinceMs) / buckets))
    this.#sinceMs = sinceMs
    this.#buckets = buckets
  }

  add(error: OneError): void {
    const { kind, tool, code, message, atMs, requests } = error
    const key = JSON.stringify([kind, baseOfTool(tool), code, patternOfError(message)])
    const known = this.#groups.get(key)
    if (known === undefined && this.#groups.size >= MAX_GROUPS) {
      this.isWhole = false
      return
    }
    const buckets = known?.buckets ?? Array<number>(this.#buckets).fill(0)
    const at = Math.min(this.#buckets - 1, Math.max(0, Math.floor((atMs - this.#sinceMs) / this.bucketMs)))
    buckets[at] = (buckets[at] ?? 0) + requests
    const callers = (known?.callers ?? new Set<string>()).add(`${error.tenant} ${error.principal}`)
    const newest = known === undefined || known.newest.atMs < atMs ? error : known.newest
    const firstMs = Math.min(atMs, known?.firstMs ?? atMs)
    this.#groups.set(key, { newest, firstMs, count: (known?.count ?? 0) + requests, buckets, callers })
  }

  /** The most frequent first; of equally frequent ones, the newest first. */
  list(limit: number): readonly ErrorGroup[] {
    return [...this.#groups.values()]
      .toSorted((one, other) => other.count - one.count || other.newest.atMs - one.newest.atMs)
      .slice(0, limit)
      .map(({ newest, firstMs, count, buckets, callers }) => ({
        kind: newest.kind,
        tool: newest.tool === '' ? null : baseOfTool(newest.tool),
        code: newest.code,
        message: patternOfError(newest.message),
        example: errorLine(newest.message),
        count,
        principals: callers.size,
        first_at: timeOf(firstMs),
        last_at: timeOf(newest.atMs),
        last_record: newest.record ?? null,
        buckets,
      }))
  }
}

function baseOfTool(tool: string): string {
  return tool.split('@', 1)[0] ?? tool
}
