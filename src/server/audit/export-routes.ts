/**
 * Serves exports as streams (`GET /admin/export/…`): the journal, calls, usage, approvals and denials, as CSV or JSON lines. A reader gets
 * the rows that the list of the same kind shows to it. Each export is journaled before its first row, and a reader that disconnects ends it.
 */
import {
  EXPORT_APPROVALS,
  EXPORT_CALLS,
  EXPORT_DENIALS,
  EXPORT_JOURNAL,
  EXPORT_USAGE,
  type Exported,
  type ExportFormat,
} from '#admin-api/exports'
import { APPROVAL_STATES } from '#kernel/approval/approval'
import type { Clock } from '#kernel/base/clock'
import { defined, type JsonObject } from '#kernel/base/json'
import type { Principal } from '#kernel/base/principal'
import type { Release } from '#kernel/call/stages'
import type { HttpReply } from '#protocols/http-exchange'
import { type OperatorAccess, visibleTenant } from '#server/admin/access'
import { badRequest, serveReply } from '#server/admin/admin-route'
import { type BaseOf, parseTime, toCallFilter } from '#server/admin/call-filter'
import type { ServerRoute } from '#server/http/router'
import type { AuditRoutesOptions } from '#server/telemetry/audit'
import type { Store } from '#store/collet-store'
import { approvalRows, callRows, denialRows, journalRows, type ReadRows, usageRows } from './export-rows.ts'
import { exportText } from './export-text.ts'
import { knownNames, toSearch } from './journal-routes.ts'

interface ExportRoutesOptions {
  readonly store: Pick<Store, 'journal' | 'list' | 'approvals' | 'audit' | 'rejections'> &
    AuditRoutesOptions['store']
  readonly configured: AuditRoutesOptions['configured']
  readonly clock: Clock
  readonly baseOf?: BaseOf
  costOf(tool: string): number | undefined
  /** Counts a request that is held open; throws if there are too many. */
  enter(principal: Principal): Release
}

export function createExportRoutes(
  access: OperatorAccess,
  options: ExportRoutesOptions,
): readonly ServerRoute[] {
  const { store, clock, baseOf, enter } = options
  /** Journals the export, and then streams its rows. */
  const send = async (
    what: Exported,
    read: ReadRows,
    { principal, query }: ExportRequest,
  ): Promise<HttpReply> => {
    const { format, ...filter } = query
    const release = enter(principal)
    const record = {
      what,
      format,
      filter: membersOf(filter),
      by: principal.id,
      tenant: visibleTenant(principal),
    }
    const atMs = clock.nowMs()
    try {
      await store.journal.recordExport({ ...record, atMs })
    } catch (error) {
      release()
      throw error
    }
    const day = new Date(atMs).toISOString().slice(0, 10)
    return {
      status: 200,
      headers: {
        'content-type': MEDIA[format],
        'content-disposition': `attachment; filename="collet-${what}-${day}.${format}"`,
      },
      async *body(ended) {
        try {
          yield* exportText(format, read(ended))
        } finally {
          release()
        }
      },
    }
  }
  const names = (principal: Principal) => knownNames(access, principal, options)
  return [
    serveReply(access, EXPORT_JOURNAL, async (request) => {
      const { principal, query } = request
      return await send(
        'journal',
        journalRows(store, toSearch(query, principal), await names(principal)),
        request,
      )
    }),
    serveReply(access, EXPORT_CALLS, async (request) => {
      const { principal, query } = request
      const filter = toCallFilter(query, clock.nowMs(), baseOf)
      return await send(
        'calls',
        callRows(store, { ...filter, tenant: visibleTenant(principal) ?? filter.tenant }),
        request,
      )
    }),
    serveReply(access, EXPORT_USAGE, async (request) => {
      const { principal, query } = request
      const range = { ...spanOf(query), tenant: visibleTenant(principal) ?? query.tenant }
      const { whole, read } = await usageRows(options, range)
      if (!whole)
        throw badRequest('since: there are more calls than can be counted at once. Choose a shorter period.')
      return await send('usage', read, request)
    }),
    serveReply(access, EXPORT_APPROVALS, async (request) => {
      const { principal, query } = request
      if (!APPROVAL_READERS.some((scope) => access.hasScope(principal, scope)))
        access.requireScope(principal, 'approvals:read')
      const state = APPROVAL_STATES.find((known) => known === query.state)
      if (query.state !== undefined && state === undefined)
        throw badRequest(`state: expected one of ${APPROVAL_STATES.join(', ')}.`)
      const filter = defined({ state, tenant: visibleTenant(principal) })
      return await send('approvals', approvalRows(store, filter, spanOf(query)), request)
    }),
    serveReply(access, EXPORT_DENIALS, async (request) => {
      const { principal, query } = request
      const filter = { ...spanOf(query), principal: query.principal, tenant: visibleTenant(principal) }
      return await send('denials', denialRows(store, filter, await names(principal)), request)
    }),
  ]
}

/** The members of a filter that were given. */
export function membersOf(filter: object): JsonObject {
  return JSON.parse(JSON.stringify(filter))
}

const APPROVAL_READERS = ['approvals:read', 'approvals:respond'] as const

const MEDIA: Readonly<Record<ExportFormat, string>> = {
  csv: 'text/csv; charset=utf-8; header=present',
  jsonl: 'application/jsonl; charset=utf-8',
}

interface ExportRequest {
  readonly principal: Principal
  readonly query: { readonly format: ExportFormat } & Readonly<Record<string, string | number | undefined>>
}

function spanOf({
  since,
  until,
}: {
  readonly since?: string | undefined
  readonly until?: string | undefined
}) {
  return { sinceMs: parseTime(since), untilMs: parseTime(until) }
}
