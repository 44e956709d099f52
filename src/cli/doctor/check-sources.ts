import { existsSync } from 'node:fs'
import type { SourceOptions } from '#config/schema'
import { idleOverrides } from '#core/imports/overrides'
import { functionNameOf, toolkitOf } from '#core/imports/project'
import type { Store } from '#core/ports/store'
import type { Tool } from '#core/tool'
import { type Governing, overridesOf } from '#server/sources'
import { type Check, fail, reasonOf, warn } from './check.ts'

export interface CheckedSources {
  readonly sources: Readonly<Record<string, SourceOptions>>
  readonly approvals: Governing['approvals']
  readonly tools: readonly Tool[]
  /** `undefined` when the store is in memory. */
  readonly file: string | undefined
  openStore(): Promise<Store>
}

/** What is said about tools of sources and is for none, as far as their pins tell: no upstream is asked. */
export async function checkSources(checked: CheckedSources): Promise<readonly Check[]> {
  const { sources, file } = checked
  if (Object.keys(sources).length === 0 || file === undefined || !existsSync(file)) return []
  try {
    const store = await checked.openStore()
    try {
      const found: Check[] = []
      for (const key of Object.keys(sources)) found.push(...(await checkSource(key, checked, store)))
      return found
    } finally {
      await store.close()
    }
  } catch (error) {
    return [warn('source', `What sources offer cannot be read: ${reasonOf(error)}`, 'See the store above.')]
  }
}

async function checkSource(
  key: string,
  { sources, approvals, tools: own }: CheckedSources,
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
    approvals,
    tools: own,
    sourceKeys: Object.keys(sources),
  }).filter(({ of, name }) => of !== 'tools' || !/[:]|^x-host-/.test(name))
  if (overrides.length > 0 && native.size === 0)
    return [
      warn(
        'source',
        `${key}: none of its tools is known, so nobody can tell what ${overrides.map(({ where }) => `\`${where}\``).join(', ')} is for.`,
        'See collet sources while the server runs.',
      ),
    ]
  return idleOverrides(overrides, { native, tools, isRead: false }).map(({ text, guards }) =>
    guards
      ? fail('source', `${key}: ${text}`, 'The server keeps its tools back until this is put right.')
      : warn('source', `${key}: ${text}`, 'Put the name right, or take it out.'),
  )
}
