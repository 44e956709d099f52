import type { ParsedConfig } from '#config/schema'
import { toApprovalRules } from '#config/schema-policies'
import { toWebhooks } from '#config/webhooks'
import type { Clock } from '#kernel/base/clock'
import { operatorNames } from '#kernel/base/ids'
import type { Tool } from '#kernel/tool/tool'
import { approverScopes } from '#server/admin/key-grants'
import { findKnownTools, knownSources, namingOfPin } from '#server/known-tools'
import { overridesOf } from '#server/sources'
import { findUnusableEntries, findUnusedNames, keysIn } from '#server/unused-names'
import { ineffectiveOverrides } from '#sources/kit/overrides'
import { functionNameOf } from '#sources/kit/project'
import type { Store } from '#store/collet-store'
import type { PinnedSource } from '#store/imports'
import { messageOf } from './output.ts'

/**
 * The part of `collet doctor` that checks names: tools, scopes and callers that the config mentions but that do not
 * exist. It reads the config and the pins in the store; it contacts no upstream. It also defines `Check`, the line that
 * every check of the doctor returns.
 */

interface CheckedNames {
  readonly config: ParsedConfig
  readonly tools: readonly Tool[]
  readonly store: CheckedStore
  readonly clock: Clock
}

/** The opened store; the error if it cannot be opened, `undefined` if it does not exist yet. */
export type CheckedStore = Store | Error | undefined

/** Returns `undefined` if there is no store or if it cannot be read; other checks report that. */
export async function readIfPossible<T>(
  store: CheckedStore,
  read: (store: Store) => T | Promise<T>,
): Promise<T | undefined> {
  if (store === undefined || store instanceof Error) return undefined
  try {
    return await read(store)
  } catch {
    return undefined
  }
}

export async function checkNames(checked: CheckedNames) {
  const { store, config } = checked
  /** Sources that servers withhold, because an approval rule for one of their tools matches no tool. */
  const withheld = new Set<string>()
  try {
    if (store instanceof Error) throw store
    if (store === undefined) return { withheld, checks: await checkUnusedNames(checked, undefined) }
    const found: Check[] = []
    const sources = Object.fromEntries(await knownSources(Object.entries(config.sources), store))
    for (const [key, options] of Object.entries(sources)) {
      const checks = await checkSource(key, options, sources, checked, store)
      if (checks.some(({ level }) => level === 'fail')) withheld.add(key)
      found.push(...checks)
    }
    return { withheld, checks: [...found, ...(await checkUnusedNames(checked, store))] }
  } catch (error) {
    const text = `The pins of sources cannot be read: ${messageOf(error)}`
    return { withheld, checks: [warn('source', text, 'See the store check above.')] }
  }
}

async function checkUnusedNames(
  { config, tools: own, clock }: CheckedNames,
  store: Store | undefined,
): Promise<readonly Check[]> {
  const { tools, sources, unread } = await findKnownTools(config, own, store)
  const written = {
    toolsets: new Map(Object.entries(config.toolsets)),
    auth: { ...config.auth, roles: new Map(Object.entries(config.auth.roles)) },
    approverScopes: approverScopes(toApprovalRules(config.approvals)),
    limited: Object.keys(config.limits.byPrincipal),
    budgets: config.budgets,
    webhooks: toWebhooks(config),
  }
  const keys = store === undefined ? undefined : await keysIn(store)
  const known = { tools, sources, unread, keys }
  return [
    ...findUnusedNames(written, known).map((text) => warn('names', text, 'Correct the name, or remove it.')),
    ...findUnusableEntries(written, known, clock.nowMs()).map((text) =>
      warn('keys', text, 'Until then this entry lets the key see no tool.'),
    ),
  ]
}

async function checkSource(
  key: string,
  options: ParsedConfig['sources'][string],
  sources: ParsedConfig['sources'],
  { config: { approvals }, tools: own }: CheckedNames,
  store: Store,
): Promise<readonly Check[]> {
  const { pins } = await store.pins.read(key)
  const tools = servedTools(key, options, pins)
  const native = new Set(pins.flatMap(({ nativeName }) => operatorNames(nativeName)))
  // Catalog ids depend on the kind of the source, which only a server determines.
  const overrides = overridesOf(key, options, {
    approvals: toApprovalRules(approvals),
    tools: own,
    sources: Object.entries(sources),
  }).filter(({ of, name }) => of !== 'tools' || !/[:]|^x-host-/.test(name))
  if (overrides.length > 0 && native.size === 0)
    return [
      warn(
        'source',
        `${key}: none of its tools are known yet, so ${overrides.map(({ where }) => `\`${where}\``).join(', ')} cannot be checked.`,
        'Start the server, then run: collet sources',
      ),
    ]
  const others = new Map<string, ReadonlySet<string>>()
  for (const other of new Set(overrides.flatMap(({ sharedWith = [] }) => sharedWith))) {
    const { pins: otherPins } = await store.pins.read(other)
    const names = servedTools(other, sources[other] ?? options, otherPins).flatMap((tool) => tool.names)
    if (otherPins.length > 0) others.set(other, new Set(names))
  }
  const known = { native, tools, isRead: false, namesOf: (other: string) => others.get(other) }
  return ineffectiveOverrides(overrides, known).map(({ text, guards }) =>
    guards
      ? fail('source', `${key}: ${text}`, 'The server does not serve its tools until this is fixed.')
      : warn('source', `${key}: ${text}`, 'Correct the name, or remove it.'),
  )
}

/** Tools of the accepted definitions of a source, each with all its names. */
function servedTools(key: string, options: ParsedConfig['sources'][string], pins: PinnedSource['pins']) {
  return pins.flatMap(({ nativeName, local, accepted, isServed }) => {
    if (!isServed || accepted === undefined) return []
    const { toolkit, local: own, version } = namingOfPin(key, options, { nativeName, local, accepted })
    const [base, name] = [`${toolkit}.${own}`, functionNameOf(toolkit, own)]
    const id = `${base}@${version}`
    return [{ id, names: [base, id, name, `${name}@${version}`] }]
  })
}

export interface Check {
  readonly level: 'ok' | 'warn' | 'fail'
  /** `node`, `config`, `store` … */
  readonly subject: string
  readonly message: string
  /** The next step; absent if nothing is wrong. */
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
