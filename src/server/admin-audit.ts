import type { AuditStore } from '#core/ports/key-store'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { httpFault } from './http-fault.ts'
import { jsonReply } from './message-reply.ts'
import { type OperatorAccess, tenantWithin } from './operator-access.ts'
import { refuseWithMessage, type ServerRoute } from './server-route.ts'

const SCOPE = 'audit:read'
const DEFAULT_LIMIT = 100
const MOST = 1_000

/** `GET /admin/audit?after=&limit=`: who was refused what, oldest first (rule 30a, OWP-62). */
export function createAuditRoutes(audit: AuditStore, access: OperatorAccess): readonly ServerRoute[] {
  const read = async ({ principal, query }: HttpRequest): Promise<HttpReply> => {
    access.requireScope(principal, SCOPE)
    const tenant = tenantWithin(principal)
    const filter = {
      after: wholeNumber(query, 'after', 0, Number.MAX_SAFE_INTEGER),
      limit: wholeNumber(query, 'limit', DEFAULT_LIMIT, MOST),
      ...(tenant === undefined ? {} : { tenant }),
    }
    const denials = await audit.readDenials(filter)
    const events = denials.map(({ no, atMs, ...denial }) => ({
      no,
      type: 'authorization.decided',
      at: new Date(atMs).toISOString(),
      ...denial,
      allowed: false,
    }))
    return jsonReply(
      200,
      { events, next: denials.at(-1)?.no ?? filter.after },
      { 'cache-control': 'no-store' },
    )
  }
  return [
    {
      method: 'GET',
      path: '/admin/audit',
      access: 'authenticated',
      body: 'never',
      authenticate: access.authenticate,
      handle: read,
      refuse: refuseWithMessage,
    },
  ]
}

function wholeNumber(query: URLSearchParams, name: string, fallback: number, most: number): number {
  const text = query.get(name)
  if (text === null) return fallback
  const number = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (number <= most) return number
  throw httpFault(400, `${name}: expected a whole number up to ${most}.`)
}
