import type { CallRequest } from '#core/call/call-request'
import type { Catalog } from '#core/catalog'
import { isToolError } from '#core/errors'
import type { Gateway } from '#core/gateway'
import type { DenialReason } from '#core/ports/audit-store'
import { DEFAULT_TENANT, type Principal } from '#core/principal'
import { isForTenant, type Tool } from '#core/tool'
import type { NoteDenial } from './denial-log.ts'
import type { ServerRoute } from './server-route.ts'

/** Sees every tool; nobody's credential gives it. */
const EVERYTHING: Principal = { id: 'audit', tenant: DEFAULT_TENANT, scopes: ['*'], seesEveryTenant: true }

/** The same gateway, whose refusals to principals that may not see a tool are audited (rule 30a). Unknown tools are nobody's. */
export function auditHidden(gateway: Gateway, note: NoteDenial): Gateway {
  return {
    ...gateway,
    async call(principal, request) {
      const reply = await gateway.call(principal, request)
      if (!reply.outcome.ok && reply.outcome.error.code === 'tool_not_found') {
        noteHidden(note, principal, 'tool.call', meantBy(request, gateway.catalogFor(EVERYTHING)))
      }
      return reply
    },
    async openSession(principal, request) {
      try {
        return await gateway.openSession(principal, request)
      } catch (error) {
        if (isToolError(error) && error.code === 'tool_not_found') {
          noteHidden(note, principal, 'tool.call', gateway.catalogFor(EVERYTHING).latestOf(request.toolId))
        }
        throw error
      }
    },
  }
}

/** Protocols that go by function names know none for a tool that their caller cannot see. */
function meantBy({ tool, calledAs }: CallRequest, catalog: Catalog): Tool | undefined {
  return calledAs === undefined ? catalog.resolve(tool) : functionsOf(catalog).get(calledAs)
}

const FUNCTIONS = new WeakMap<Catalog, ReadonlyMap<string, Tool>>()

function functionsOf(catalog: Catalog): ReadonlyMap<string, Tool> {
  const known = FUNCTIONS.get(catalog)
  if (known !== undefined) return known
  const made = new Map(catalog.latest().map((tool) => [tool.name, tool]))
  FUNCTIONS.set(catalog, made)
  return made
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
          const hidden = gateway.catalogFor(EVERYTHING).latestOf(request.params.toolId ?? '')
          noteHidden(note, request.principal, 'tool.read', hidden)
        }
        throw error
      }
    },
  }
}

function reasonOf(principal: Principal, { catalogId, policy }: Tool): DenialReason {
  if (!isForTenant(policy, principal.tenant)) return 'tenant'
  return principal.tools?.includes(catalogId) === false ? 'allowlist' : 'scope'
}

function noteHidden(
  note: NoteDenial,
  principal: Principal,
  action: 'tool.call' | 'tool.read',
  tool: Tool | undefined,
): void {
  if (tool === undefined) return
  const resource = tool.catalogId
  note(principal, { action, resource, reason: reasonOf(principal, tool) })
}
