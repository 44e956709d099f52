import type { Settings } from '#config/settings'
import { isImported } from '#config/to-settings'
import { idleEvents, type Webhook } from '#config/webhooks'
import type { BudgetRule } from '#core/limits/budgets'
import { didYouMean } from '#core/nearest-name'
import type { KeyOwner } from '#core/ports/key-store'
import { DEFAULT_TENANT, NO_ROLES, type RoleTable } from '#core/principal'
import type { Logger } from '#core/runtime'
import { findIdle, readSelector, type Toolsets } from '#core/tools/toolsets'
import { approverScopes, unaskedScope } from '#server/admin/key-grants'
import type { KnownTool } from './known-tools.ts'
import type { Services } from './services.ts'

/** What of a config names tools, scopes and callers. */
interface WrittenNames {
  readonly toolsets: Toolsets
  readonly auth: Pick<Settings['auth'], 'apiKeys' | 'issuers'> & { readonly roles: RoleTable }
  /** Scopes that approvers have to hold. */
  readonly approverScopes: readonly string[]
  /** Keys of `limits.byPrincipal`. */
  readonly limited: Iterable<string>
  readonly budgets: readonly BudgetRule[]
  readonly webhooks: readonly Pick<Webhook, 'name' | 'events'>[]
}

/** What there is to be named. */
interface NamedThings {
  readonly tools: readonly KnownTool[]
  readonly sources: readonly string[]
  /** Sources whose tools are not known yet: what may be about them is not said to be wrong. */
  readonly unread: Iterable<readonly [string, { readonly type: string }]>
  /** Owners of keys in the store; `undefined` where there are more than can be looked at. */
  readonly owners: readonly KeyOwner[] | undefined
}

/** Everything in a config that is about nothing, with what was probably meant: it limits or opens less than somebody believes. */
export function findIdleNames(written: WrittenNames, things: NamedThings): readonly string[] {
  const unread = [...things.unread]
  return [
    ...findIdle(written.toolsets, things)
      .filter(({ selector }) => unread.length === 0 || !mayBeOf(unread, selector))
      .map(({ text }) => text),
    ...(unread.length > 0 ? [] : idleScopes(written, things)),
    ...(things.owners === undefined ? [] : idleCallers(written, things.owners)),
    ...idleEvents(written.webhooks),
  ]
}

/** Whether a selector may be about tools of these sources. Any of them may have a tag, or fill a toolset that is empty. */
function mayBeOf(
  sources: readonly (readonly [string, { readonly type: string }])[],
  selector: string | undefined,
): boolean {
  if (selector === undefined) return true
  const read = readSelector(selector)
  if (read === undefined) return false
  return read.kind === 'tag' || isImported(read.kind === 'name' ? selector : read.pattern, sources)
}

function idleScopes(
  { auth, approverScopes: scopes }: WrittenNames,
  { tools }: NamedThings,
): readonly string[] {
  const idle = (where: string, held: readonly string[]): readonly string[] =>
    held.flatMap((scope) => unaskedScope(scope, { tools, scopes }).map((text) => `${where}: ${text}`))
  return [
    ...auth.apiKeys.flatMap(({ id, scopes: held }) => idle(`auth.apiKeys of "${id}"`, held)),
    ...[...auth.roles].flatMap(([role, { scopes: held }]) => idle(`auth.roles.${role}`, held)),
  ]
}

const KEY = 'key:'

/** Tokens bring subjects, and with a claim for it tenants, that nobody knows before: of these nothing is said. */
function idleCallers(
  { auth: { apiKeys, issuers = [] }, limited, budgets }: WrittenNames,
  owners: readonly KeyOwner[],
): readonly string[] {
  const known = [...apiKeys.map(({ id, tenant }) => ({ name: id, tenant })), ...owners]
  const principals = [...new Set(known.map(({ name }) => KEY + name))]
  const tenants = [
    ...new Set([
      DEFAULT_TENANT,
      ...known.map(({ tenant }) => tenant),
      ...issuers.map(({ tenant }) => tenant),
    ]),
  ]
  const isOpen = issuers.some(({ claims }) => claims.tenant !== undefined)
  const noKey = (where: string, id: string): readonly string[] =>
    !id.startsWith(KEY) || principals.includes(id)
      ? []
      : [`${where}: nobody has a key as "${id}".${didYouMean(id, principals)}`]
  const noTenant = (where: string, tenant: string): readonly string[] =>
    isOpen || tenants.includes(tenant)
      ? []
      : [`${where}: no key belongs to the tenant "${tenant}".${didYouMean(tenant, tenants)}`]
  return [
    ...[...limited].flatMap((id) => noKey('limits.byPrincipal', id)),
    ...budgets.flatMap(({ for: whose, of = [] }, index) =>
      [...of].flatMap((name) => (whose === 'tenant' ? noTenant : noKey)(`budgets[${index}].of`, name)),
    ),
  ]
}

const MOST_OWNERS = 10_000

/** Owners of the keys of a store, as `findIdleNames` takes them. */
export async function ownersIn({
  keys,
}: Pick<Services['gateway']['store'], 'keys'>): Promise<readonly KeyOwner[] | undefined> {
  const found = await keys.listKeys({ limit: MOST_OWNERS })
  return found.length === MOST_OWNERS ? undefined : found
}

/** The same of a running server, and again whenever tools or toolsets change; each is logged once while it lasts. */
export async function watchIdleNames(
  { registry, gateway, sources }: Pick<Services, 'registry' | 'gateway' | 'sources'>,
  live: () => Pick<Settings, 'auth' | 'approvals' | 'limits' | 'budgets' | 'webhooks'>,
  log: Logger,
): Promise<readonly string[]> {
  const owners = await ownersIn(gateway.store)
  const find = (): readonly string[] => {
    const { auth, approvals, limits, budgets, webhooks = [] } = live()
    const status = sources.sources.status()
    return findIdleNames(
      {
        toolsets: registry.toolsets,
        auth: { ...auth, roles: auth.roles ?? NO_ROLES },
        approverScopes: approverScopes(approvals),
        limited: limits.byPrincipal.keys(),
        budgets,
        webhooks,
      },
      {
        tools: registry.tools,
        sources: status.map(({ key }) => key),
        unread: status.flatMap(({ key, type, tools }) => (tools === 0 ? [[key, { type }] as const] : [])),
        owners,
      },
    )
  }
  const first = find()
  let before = first
  gateway.catalogChanges.listen(() => {
    const now = find()
    for (const problem of now)
      if (!before.includes(problem)) log.warn({ problem }, 'something in the config is about nothing')
    before = now
  })
  return first
}
