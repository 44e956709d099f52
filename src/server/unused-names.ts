/**
 * Finds names in the config and entries of keys that have no effect, because they match no tool, scope or caller. `collet doctor`
 * reports them; a running server reports them at its start and logs new ones when its tools change.
 */

import type { Settings } from '#config/settings'
import { isImported } from '#config/to-settings'
import { unknownEvents, type Webhook } from '#config/webhooks'
import type { Clock } from '#kernel/base/clock'
import type { Logger } from '#kernel/base/logger'
import { didYouMean } from '#kernel/base/nearest-name'
import { DEFAULT_TENANT, NO_ROLES, type RoleTable } from '#kernel/base/principal'
import { sharedNameNotes } from '#kernel/tool/shared-names'
import { findUnused, isInToolset, readSelector, type Toolsets } from '#kernel/tool/toolsets'
import {
  approverScopes,
  describeUnusable,
  selectedBy,
  unusableEntries,
  unusedScope,
} from '#server/admin/key-grants'
import type { BudgetRule } from '#stages/limits/budgets'
import type { Store } from '#store/collet-store'
import type { KeyOwner, KeyRecord } from '#store/keys'
import type { KnownTool } from './known-tools.ts'
import type { Live } from './part.ts'
import type { Services } from './services.ts'

/** The part of a config that names tools, scopes and callers. */
interface WrittenNames {
  readonly toolsets: Toolsets
  readonly auth: Pick<Settings['auth'], 'apiKeys' | 'issuers'> & { readonly roles: RoleTable }
  /** Scopes that approvers need. */
  readonly approverScopes: readonly string[]
  /** Keys of `limits.byPrincipal`. */
  readonly limited: Iterable<string>
  readonly budgets: readonly BudgetRule[]
  readonly webhooks: readonly Pick<Webhook, 'name' | 'events'>[]
}

/** The tools, sources and keys that names can match. */
interface NameTargets {
  readonly tools: readonly KnownTool[]
  readonly sources: readonly string[]
  /** Sources whose tools are not known yet: a name that may match one of them is not reported. */
  readonly unread: Iterable<readonly [string, { readonly type: string }]>
  /** Keys in the store; `undefined` if there are too many to check. */
  readonly keys: readonly KeyRecord[] | undefined
}

/** Names in a config that match nothing, each with a suggestion: they restrict or grant less than their author expects. */
export function findUnusedNames(written: WrittenNames, targets: NameTargets): readonly string[] {
  const unread = [...targets.unread]
  return [
    ...findUnused(written.toolsets, targets)
      .filter(({ selector }) => unread.length === 0 || !mayMatchIn(unread, selector))
      .map(({ text }) => text),
    ...(unread.length > 0 ? [] : unusedScopes(written, targets)),
    ...(targets.keys === undefined ? [] : unusedCallers(written, targets.keys)),
    ...unknownEvents(written.webhooks),
    ...sharedNameNotes(targets.tools),
    ...sharedNativeNames(written.toolsets, targets.tools),
  ]
}

/** One note about each name that tools of several sources have in a toolset with native names (MCP-171). */
function sharedNativeNames(toolsets: Toolsets, tools: readonly KnownTool[]): readonly string[] {
  return [...toolsets].flatMap(([toolset, written]) => {
    if (written.names !== 'native') return []
    const included = tools.filter((tool) => isInToolset(written, tool))
    return [...Map.groupBy(included, ({ nativeName, name }) => nativeName ?? name)].flatMap(
      ([name, named]) => {
        const bases = [...new Set(named.map(({ parts }) => parts.base))]
        if (bases.length === 1) return []
        return [
          `toolsets.${toolset}: "${name}" is the name of ${bases.join(', ')}, so these keep their prefixes there. Exclude all but one to serve it without a prefix.`,
        ]
      },
    )
  })
}

/** Whether a selector may match tools of these sources. Any of these sources may have a tag, or fill an empty toolset. */
function mayMatchIn(
  sources: readonly (readonly [string, { readonly type: string }])[],
  selector: string | undefined,
): boolean {
  if (selector === undefined) return true
  const read = readSelector(selector)
  if (read === undefined) return false
  return read.kind === 'tag' || isImported(read.kind === 'name' ? selector : read.pattern, sources)
}

function unusedScopes(
  { auth, approverScopes: scopes }: WrittenNames,
  { tools }: NameTargets,
): readonly string[] {
  const findIn = (where: string, held: readonly string[]): readonly string[] =>
    held.flatMap((scope) => unusedScope(scope, { tools, scopes }).map((text) => `${where}: ${text}`))
  return [
    ...auth.apiKeys.flatMap(({ id, scopes: held }) => findIn(`auth.apiKeys of "${id}"`, held)),
    ...[...auth.roles].flatMap(([role, { scopes: held }]) => findIn(`auth.roles.${role}`, held)),
  ]
}

const KEY = 'key:'

/** Tokens may name any subject and, with a tenant claim, any tenant, so subjects and tenants of tokens are not reported. */
function unusedCallers(
  { auth: { apiKeys, issuers = [] }, limited, budgets }: WrittenNames,
  owners: readonly KeyOwner[],
): readonly string[] {
  const known = [...apiKeys.map(({ id, tenant }) => ({ name: id, tenant })), ...owners]
  const principals = [...new Set(known.map(({ name }) => KEY + name))]
  const tenants = [...new Set([DEFAULT_TENANT, ...[...known, ...issuers].map(({ tenant }) => tenant)])]
  const isOpen = issuers.some(({ claims }) => claims.tenant !== undefined)
  const missing = (text: string, name: string, known: readonly string[]): readonly string[] =>
    known.includes(name) ? [] : [`${text} "${name}".${didYouMean(name, known)}`]
  const noKey = (where: string, id: string): readonly string[] =>
    id.startsWith(KEY) ? missing(`${where}: no key belongs to`, id, principals) : []
  const noTenant = (where: string, tenant: string): readonly string[] =>
    isOpen ? [] : missing(`${where}: no key belongs to the tenant`, tenant, tenants)
  return [
    ...[...limited].flatMap((id) => noKey('limits.byPrincipal', id)),
    ...budgets.flatMap(({ for: whose, of = [] }, index) =>
      [...of].flatMap((name) => (whose === 'tenant' ? noTenant : noKey)(`budgets[${index}].of`, name)),
    ),
  ]
}

/**
 * Entries in the allow-lists of keys that have no effect, because the key lacks a scope of every tool that they select. Equal entries
 * of several keys in the store are reported once.
 */
export function findUnusableEntries(
  { toolsets, auth }: Pick<WrittenNames, 'toolsets' | 'auth'>,
  { tools, unread, keys = [] }: NameTargets,
  nowMs: number,
): readonly string[] {
  const sources = [...unread]
  const known = new Map<string, readonly KnownTool[]>()
  const select = (tenant: string) => (text: string) => {
    if (sources.length > 0 && mayMatchIn(sources, text)) return []
    const cacheKey = `${tenant} ${text}`
    const selected = known.get(cacheKey) ?? selectedBy(text, tenant, { tools, toolsets })
    known.set(cacheKey, selected)
    return selected
  }
  const configured = auth.apiKeys.flatMap(({ id, tenant, scopes, roles = [], tools: allowed }) =>
    unusableEntries({ scopes, roles, tools: allowed }, auth.roles, select(tenant)).map(
      (entry) => `auth.apiKeys of "${id}": ${describeUnusable(entry)}: add it to \`scopes\``,
    ),
  )
  const usable = keys.filter(
    ({ revokedAtMs, expiresAtMs = Number.POSITIVE_INFINITY }) =>
      revokedAtMs === undefined && expiresAtMs > nowMs,
  )
  const stored = usable.flatMap((key) =>
    unusableEntries(key, auth.roles, select(key.tenant)).map((entry) => ({ name: key.name, entry })),
  )
  const groups = Map.groupBy(stored, ({ entry }) => describeUnusable(entry))
  const grouped = [...groups].map(([text, [first, ...others]]) => {
    const more = others.length > 0 ? ` and ${others.length} more` : ''
    const scopes = (first?.entry.scopes ?? []).map((scope) => `--scope ${scope}`).join(' ')
    return `${KEY}${first?.name}${more}: ${text}: create a key with ${scopes}`
  })
  return [...configured, ...grouped]
}

const MAX_KEYS = 10_000

/** The keys of a store; `undefined` if there are too many to check. */
export async function keysIn(store: Pick<Store, 'keys'>): Promise<readonly KeyRecord[] | undefined> {
  const found = await store.keys.listKeys({ limit: MAX_KEYS })
  return found.length === MAX_KEYS ? undefined : found
}

/** Finds unused names in a running server, and logs new unused names whenever tools or toolsets change. */
export async function watchUnusedNames(
  { registry, gateway, sources }: Pick<Services, 'registry' | 'gateway' | 'sources'>,
  settings: Live<Pick<Settings, 'auth' | 'approvals' | 'limits' | 'budgets' | 'webhooks'>>,
  { log, clock }: { readonly log: Logger; readonly clock: Clock },
): Promise<readonly string[]> {
  const keys = await keysIn(gateway.store)
  const find = (): readonly string[] => {
    const { auth, approvals, limits, budgets, webhooks = [] } = settings.current
    const status = sources.sources.status()
    const written = {
      toolsets: registry.toolsets,
      auth: { ...auth, roles: auth.roles ?? NO_ROLES },
      approverScopes: approverScopes(approvals),
      limited: limits.byPrincipal.keys(),
      budgets,
      webhooks,
    }
    const targets = {
      tools: registry.definitions,
      sources: status.map(({ key }) => key),
      unread: status.flatMap(({ key, type, tools, prompts, templates }) =>
        tools + prompts + templates === 0 ? [[key, { type }] as const] : [],
      ),
      keys,
    }
    return [...findUnusedNames(written, targets), ...findUnusableEntries(written, targets, clock.nowMs())]
  }
  const first = find()
  let before = first
  gateway.catalogChanges.listen(() => {
    const now = find()
    for (const problem of now)
      if (!before.includes(problem))
        log.warn({ problem }, 'a name in the config or an entry of a key has no effect')
    before = now
  })
  return first
}
