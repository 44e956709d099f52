import type { ParsedConfig } from '#config/schema'
import { toApprovalRules } from '#config/schema-policies'
import { toWebhooks } from '#config/webhooks'
import { idleOverrides } from '#core/imports/overrides'
import { functionNameOf, toolkitOf } from '#core/imports/project'
import type { Store } from '#core/ports/store'
import type { Tool } from '#core/tool'
import { approverScopes } from '#server/admin/key-grants'
import { findIdleNames, ownersIn } from '#server/idle-names'
import { findKnownTools } from '#server/known-tools'
import { overridesOf } from '#server/sources'

interface CheckedNames {
  readonly config: ParsedConfig
  /** Tools written as code. */
  readonly tools: readonly Tool[]
  /** Whether there is a store to read. */
  readonly isThere: boolean
  openStore(): Promise<Store>
}

/** What a config says about tools, scopes and callers that are not there, as far as config and pins tell: no upstream is asked. */
export async function checkNames(checked: CheckedNames): Promise<readonly Check[]> {
  if (!checked.isThere) return await checkIdle(checked, undefined)
  try {
    const store = await checked.openStore()
    try {
      const found: Check[] = []
      for (const key of Object.keys(checked.config.sources))
        found.push(...(await checkSource(key, checked, store)))
      return [...found, ...(await checkIdle(checked, store))]
    } finally {
      await store.close()
    }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return [warn('source', `The pins of sources cannot be read: ${reason}`, 'See the store above.')]
  }
}

async function checkIdle(
  { config, tools: own }: CheckedNames,
  store: Store | undefined,
): Promise<readonly Check[]> {
  const { tools, sources, unread } = await findKnownTools(config.sources, own, store)
  const written = {
    toolsets: new Map(Object.entries(config.toolsets)),
    auth: { ...config.auth, roles: new Map(Object.entries(config.auth.roles)) },
    approverScopes: approverScopes(toApprovalRules(config.approvals)),
    limited: Object.keys(config.limits.byPrincipal),
    budgets: config.budgets,
    webhooks: toWebhooks(config),
  }
  const owners = store === undefined ? undefined : await ownersIn(store)
  return findIdleNames(written, { tools, sources, unread, owners }).map((text) =>
    warn('names', text, 'Correct the name, or remove it.'),
  )
}

async function checkSource(
  key: string,
  { config: { sources, approvals }, tools: own }: CheckedNames,
  store: Store,
): Promise<readonly Check[]> {
  const options = sources[key]
  if (options === undefined) return []
  const { pins } = await store.pins.read(key)
  const tools = pins.flatMap(({ local, accepted, isServed }) => {
    if (!isServed || accepted === undefined) return []
    const toolkit = toolkitOf(key)
    const [base, name] = [`${toolkit}.${local}`, functionNameOf(toolkit, local)]
    const id = `${base}@${accepted.version}`
    return [{ id, names: [base, id, name, `${name}@${accepted.version}`] }]
  })
  const native = new Set(pins.map(({ nativeName }) => nativeName))
  // Catalog ids depend on what kind of source it is, which only a server works out.
  const overrides = overridesOf(key, options, {
    approvals: toApprovalRules(approvals),
    tools: own,
    sourceKeys: Object.keys(sources),
  }).filter(({ of, name }) => of !== 'tools' || !/[:]|^x-host-/.test(name))
  if (overrides.length > 0 && native.size === 0)
    return [
      warn(
        'source',
        `${key}: none of its tools are known yet, so it cannot be checked what ${overrides.map(({ where }) => `\`${where}\``).join(', ')} is for.`,
        'See collet sources while the server runs.',
      ),
    ]
  return idleOverrides(overrides, { native, tools, isRead: false }).map(({ text, guards }) =>
    guards
      ? fail('source', `${key}: ${text}`, 'The server does not serve its tools until this is fixed.')
      : warn('source', `${key}: ${text}`, 'Correct the name, or remove it.'),
  )
}

/** One thing the doctor looked at. */
export interface Check {
  readonly level: 'ok' | 'warn' | 'fail'
  /** `node`, `config`, `store` … */
  readonly subject: string
  readonly message: string
  /** What to do; absent when all is well. */
  readonly advice?: string
}

export function ok(subject: string, message: string): Check {
  return { level: 'ok', subject, message }
}

export function warn(subject: string, message: string, advice: string): Check {
  return { level: 'warn', subject, message, advice }
}

export function fail(subject: string, message: string, advice: string): Check {
  return { level: 'fail', subject, message, advice }
}
