import type { Gateway } from '#core/calls/gateway'
import { isToolError } from '#core/errors'
import type { DenialReason } from '#core/ports/key-store'
import { DEFAULT_TENANT, type Principal } from '#core/principal'
import { isForTenant, type Tool } from '#core/tool'
import type { NoteDenial } from './denial-log.ts'
import type { ServerRoute } from './server-route.ts'

/** Sees every tool; nobody's credential gives it. */
const EVERYTHING: Principal = { id: 'audit', tenant: DEFAULT_TENANT, scopes: ['*'], seesEveryTenant: true }

/** The same gateway, whose refusals to principals that may not see a tool are audited (rule 30a). Unknown tools are nobody's. */
export function auditHidden(gateway: Gateway, note: NoteDenial): Gateway {
  const all = () => gateway.catalogFor(EVERYTHING)
  return {
    ...gateway,
    async call(principal, request) {
      const reply = await gateway.call(principal, request)
      if (!reply.outcome.ok && reply.outcome.error.code === 'tool_not_found') {
        const tool = { ...request.tool, base: shortName(request.tool.base) }
        const find = () => all().resolve(tool)
        noteHidden(gateway, note, { principal, action: 'tool.call', find })
      }
      return reply
    },
    async openSession(principal, request) {
      try {
        return await gateway.openSession(principal, request)
      } catch (error) {
        if (isToolError(error) && error.code === 'tool_not_found') {
          const name = shortName(request.toolId)
          const find = () => all().find(name)
          noteHidden(gateway, note, { principal, action: 'tool.call', find })
        }
        throw error
      }
    },
  }
}

/** The same route, whose look-ups of one tool by its catalog id are audited alike. */
export function auditRead(route: ServerRoute, gateway: Gateway, note: NoteDenial): ServerRoute {
  return {
    ...route,
    async handle(request) {
      try {
        return await route.handle(request)
      } catch (error) {
        if (isToolError(error) && error.code === 'tool_not_found') {
          const { principal, params } = request
          const name = shortName(params.toolId ?? '')
          const find = () => gateway.catalogFor(EVERYTHING).find(name)
          noteHidden(gateway, note, { principal, action: 'tool.read', find })
        }
        throw error
      }
    },
  }
}

interface Denied {
  readonly principal: Principal
  readonly action: 'tool.call' | 'tool.read'
  /** `undefined` when there is no such tool at all. */
  find(): Tool | undefined
}

/** Of no use to anybody when it is longer than any tool's, and kept for a second. */
function shortName(name: string): string {
  return name.length > LONGEST_NAME ? '' : name
}

const LONGEST_NAME = 1_000

/** Which of the two it was is looked for later, by nobody's request. */
function noteHidden(gateway: Gateway, note: NoteDenial, { principal, action, find }: Denied): void {
  note(principal, () => {
    const tool = find()
    if (tool === undefined) return undefined
    return { action, resource: tool.catalogId, reason: reasonOf(gateway, principal, tool) }
  })
}

function reasonOf(gateway: Gateway, { tenant, tools }: Principal, { id, policy }: Tool): DenialReason {
  if (!isForTenant(policy, tenant)) return 'tenant'
  // Which names an allow-list means is for the catalog to say.
  const isListed = tools === undefined || gateway.catalogFor({ ...EVERYTHING, tools }).get(id) !== undefined
  return isListed ? 'scope' : 'allowlist'
}
