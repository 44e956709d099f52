/**
 * Checks the grants of a new key: roles, toolsets and tools must exist, each entry should make some tool callable, and the granting
 * principal must have the same rights. The key routes and the check of a config (`unused-names.ts`, `collet doctor`) use the same rules.
 */
import { SERVER_SCOPES } from '#admin-api/operation'
import type { ApprovalRules } from '#kernel/approval/approvals'
import { fault } from '#kernel/base/errors'
import { didYouMean } from '#kernel/base/nearest-name'
import { coversScope, grantedScopes, NO_ROLES, type Principal, type RoleTable } from '#kernel/base/principal'
import { isForTenant } from '#kernel/tool/tool'
import { allowLists, readSelector, type Selectable, selectorProblem, selectsIn } from '#kernel/tool/toolsets'
import { httpFault } from '#server/http/exchange'
import type { KnownTool } from '#server/known-tools'
import type { KeyGrant } from '#store/keys'

/** Tools, toolsets, roles and scopes that a key can be given. */
export interface KnownGrants extends Selectable {
  readonly tools: readonly KnownTool[]
  readonly roles: RoleTable
  /** Scopes other than those of tools and of the server's own routes. */
  readonly scopes: readonly string[]
  /** Whether a tool with this name may still come from a source whose tools are not all known. */
  mayComeLater(name: string): boolean
}

/**
 * Throws for a role, a toolset or a tool that does not exist: it would grant nothing, and the key's owner would not notice. Returns
 * warnings about entries that may match something later.
 */
export function checkGrant(grant: KeyGrant, tenant: string, known: KnownGrants): readonly string[] {
  const role = grant.roles.find((name) => !known.roles.has(name))
  if (role !== undefined)
    throw httpFault(400, `There is no role "${role}" in auth.roles.${didYouMean(role, known.roles.keys())}`)
  const visible = { ...known, tools: known.tools.filter(({ policy }) => isForTenant(policy, tenant)) }
  const warnings: string[] = []
  for (const text of grant.tools ?? []) {
    const problem = selectorProblem(text, visible)
    if (problem === undefined) continue
    const kind = readSelector(text)?.kind
    const isCertain = kind === 'toolset' || (kind === 'name' && !known.mayComeLater(text))
    const sentence = problem.charAt(0).toUpperCase() + problem.slice(1)
    if (isCertain)
      throw httpFault(400, `${sentence} collet tools lists the names, collet toolsets the toolsets.`)
    warnings.push(sentence)
  }
  const unusable = unusableEntries(grant, known.roles, (text) => selectedBy(text, tenant, known)).map(
    (entry) => `${describeUnusable(entry)}: add ${entry.scopes.map((scope) => `--scope ${scope}`).join(' ')}`,
  )
  return [...warnings, ...unusable, ...grant.scopes.flatMap((scope) => unusedScope(scope, visible))]
}

/** An entry of an allow-list that selects tools, none of which the key may call. */
interface UnusableEntry {
  readonly text: string
  /** The scopes that the key lacks for the tool with the fewest missing scopes. */
  readonly scopes: readonly string[]
}

/** The tools of a tenant that an entry of an allow-list selects. */
export function selectedBy(
  text: string,
  tenant: string,
  { tools, toolsets }: Pick<KnownGrants, 'tools' | 'toolsets'>,
): readonly KnownTool[] {
  return tools.filter((tool) => isForTenant(tool.policy, tenant) && selectsIn(toolsets, text, tool))
}

/** Entries of a key's allow-list that have no effect, because the key lacks a scope of every tool that they select. */
export function unusableEntries(
  { tools = [], scopes, roles }: KeyGrant,
  table: RoleTable,
  select: (text: string) => readonly KnownTool[],
): readonly UnusableEntry[] {
  const held = grantedScopes(table, { scopes, roles })
  return tools.flatMap((text) => {
    let closest: readonly string[] | undefined
    for (const { policy } of select(text)) {
      const missing = policy.scopes.filter((scope) => !coversScope(held, scope))
      if (missing.length === 0) return []
      if (closest === undefined || missing.length < closest.length) closest = missing
    }
    return closest === undefined ? [] : [{ text, scopes: closest }]
  })
}

export function describeUnusable({ text, scopes }: UnusableEntry): string {
  const noun = scopes.length === 1 ? 'scope' : 'scopes'
  return `${text} needs the ${noun} ${scopes.join(', ')}, which this key does not have`
}

export function approverScopes({ requiredScope, perTool }: ApprovalRules): readonly string[] {
  return [requiredScope, ...[...perTool.values()].map((terms) => terms.requiredScope)].flatMap(
    (scope) => scope ?? [],
  )
}

/** Warns about a scope that no tool and no route needs. */
export function unusedScope(
  scope: string,
  { tools, scopes }: Pick<KnownGrants, 'tools' | 'scopes'>,
): readonly string[] {
  const needed = new Set([...tools.flatMap(({ policy }) => policy.scopes), ...scopes, ...SERVER_SCOPES])
  if ([...needed].some((other) => coversScope([scope], other))) return []
  return [`No tool or route here needs the scope "${scope}".${didYouMean(scope, needed)}`]
}

/** Throws if a grant exceeds the rights of the granting principal. */
export function checkBounds(grant: KeyGrant, bounds: Principal, known: KnownGrants | undefined): void {
  const scopes = grantedScopes(known?.roles ?? NO_ROLES, grant)
  const excess = scopes.find((scope) => !coversScope(bounds.scopes, scope))
  if (excess !== undefined)
    throw fault('not_authorized', `You cannot grant the scope ${excess}, because you do not have it.`)
  for (const held of allowLists(bounds)) {
    if (grant.tools?.every((text) => isAmong(text, held, bounds.tenant, known)) !== true)
      throw fault('not_authorized', 'You can grant only the tools that your own key is limited to.')
  }
}

/** Whether `held` selects every tool that `text` selects. A pattern must be in `held` literally, because later tools may match it too. */
function isAmong(
  text: string,
  held: readonly string[],
  tenant: string,
  known: KnownGrants | undefined,
): boolean {
  if (held.includes(text)) return true
  if (known === undefined || readSelector(text)?.kind !== 'name') return false
  const selected = selectedBy(text, tenant, known)
  return (
    selected.length > 0 &&
    selected.every((tool) => held.some((other) => selectsIn(known.toolsets, other, tool)))
  )
}
