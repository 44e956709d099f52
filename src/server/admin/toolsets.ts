import { DEFAULT_TENANT, type Principal, type RoleTable } from '#kernel/base/principal'
import { isForTenant } from '#kernel/tool/tool'
import { allowLists, isInToolset, selectsIn, TOOLSET_PREFIX, type Toolsets } from '#kernel/tool/toolsets'
import { jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import type { KnownTool } from '#server/known-tools'
import type { KeyStore } from '#store/keys'
import { adminRoute, isOperator, NO_STORE, type OperatorAccess } from './access.ts'

const SCOPE = 'admin:keys'
const MAX_KEYS = 10_000

interface ConfiguredKey {
  readonly id: string
  readonly tenant: string
  readonly tools?: readonly string[] | undefined
}

/** What the config and the tools of now come to. */
export interface ToolsetParts {
  readonly toolsets: Toolsets
  readonly tools: readonly KnownTool[]
  readonly roles: RoleTable
  readonly apiKeys: readonly ConfiguredKey[]
}

/** Toolsets with what is in them and who has them, for the start token, and for the scope `admin:keys` as its own tenant sees it. */
export function createToolsetRoutes(
  parts: () => ToolsetParts,
  keys: Pick<KeyStore, 'listKeys'>,
  access: OperatorAccess,
): readonly ServerRoute[] {
  return [
    adminRoute(access, 'GET', '/admin/toolsets', async ({ principal }) => {
      access.requireScope(principal, SCOPE)
      const viewer = isOperator(principal) ? undefined : principal
      const tenant = viewer?.tenant
      const stored = await keys.listKeys({ limit: MAX_KEYS, ...(tenant === undefined ? {} : { tenant }) })
      const holders = [
        ...parts().apiKeys.filter((key) => tenant === undefined || key.tenant === tenant),
        ...stored
          .filter(({ revokedAtMs }) => revokedAtMs === undefined)
          .map((key) => ({ ...key, id: key.name })),
      ]
      return jsonReply(200, { toolsets: listToolsets(parts(), holders, viewer) }, NO_STORE)
    }),
  ]
}

/** A toolset as operators see it. */
export type RenderedToolset = ReturnType<typeof listToolsets>[number]

/** As the operator sees them, or a viewer that may itself be limited to some. */
export function listToolsets(
  { toolsets, tools, roles }: ToolsetParts,
  holders: readonly ConfiguredKey[],
  viewer?: Principal,
) {
  const bounds = viewer === undefined ? [] : allowLists(viewer)
  const seen = tools.filter(
    (tool) =>
      (viewer === undefined || isForTenant(tool.policy, viewer.tenant)) &&
      bounds.every((list) => list.some((text) => selectsIn(toolsets, text, tool))),
  )
  return [...toolsets].flatMap(([name, toolset]) => {
    const inside = seen.filter((tool) => isInToolset(toolset, tool))
    // One that a limited viewer was not given, or has nothing of, is not there for it (rule 2).
    const named = bounds.flat().filter((text) => text.startsWith(TOOLSET_PREFIX))
    const isGiven = named.length === 0 ? inside.length > 0 : named.includes(TOOLSET_PREFIX + name)
    if (bounds.length > 0 && !isGiven) return []
    const given = holders.filter((key) => key.tools?.includes(TOOLSET_PREFIX + name) === true)
    return {
      name,
      description: toolset.description ?? null,
      // They may name tools that the viewer does not know of.
      include: viewer === undefined ? toolset.include : null,
      exclude: viewer === undefined ? toolset.exclude : null,
      tier: toolset.tier ?? null,
      path: `/mcp/${name}`,
      tools: inside.map(({ parts: { base, version } }) => `${base}@${version}`),
      keys: [...new Set(given.map(shownOwner))],
      roles: [...roles].flatMap(([role, held]) => (held.toolsets?.includes(name) === true ? [role] : [])),
    }
  })
}

function shownOwner({ id, tenant }: ConfiguredKey): string {
  return tenant === DEFAULT_TENANT ? id : `${id} (${tenant})`
}
