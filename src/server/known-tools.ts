import type { ParsedConfig } from '#config/schema'
import type { Settings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import { SILENT_LOGGER } from '#kernel/base/logger'
import type { Tool, ToolPolicy } from '#kernel/tool/tool'
import type { SelectableTool } from '#kernel/tool/toolsets'
import { writtenPolicy } from '#sources/common/options'
import { Pins } from '#sources/kit/pins'
import {
  catalogIdOf,
  catalogNames,
  functionNameOf,
  joinTools,
  type Naming,
  namingOf,
  projectTools,
  tagsOf,
} from '#sources/kit/project'
import type { Source } from '#sources/kit/source'
import { failedSource } from '#sources/kit/sources'
import { keptIdOf, openSource, SOURCE_OPTIONS, type SourceOptions, sourceKind } from '#sources/source-types'
import type { Store } from '#store/collet-store'
import type { AcceptedDefinition } from '#store/imports'

/*
 * Finds the tools that a server would serve, from its config and store alone.
 * Used by commands that check names and list tools without a running server. Invariant: no upstream is opened or read.
 */

/** Facts about a tool that are known without opening its source: enough to match names, patterns and scopes. */
export interface KnownTool extends SelectableTool {
  readonly policy: Pick<ToolPolicy, 'safetyTier' | 'scopes' | 'tenants'>
}

/**
 * The tools that a server with this config and store would serve, without reading an upstream; the keys of all sources; and
 * `unread`, the sources without a known tool.
 */
export async function findKnownTools(
  { sources: configured, openwop }: Pick<ParsedConfig, 'sources' | 'openwop'>,
  own: readonly Tool[],
  store: Pick<Store, 'sources' | 'pins'> | undefined,
) {
  const sources = await knownSources(Object.entries(configured), store)
  const unread = new Map<string, SourceOptions>()
  const imported: KnownTool[] = []
  for (const [key, options] of sources) {
    const { pins } = (await store?.pins.read(key)) ?? { pins: [] }
    const tools = pins.flatMap((pin) => (pin.isServed ? toKnown(key, options, pin, openwop.vendor) : []))
    imported.push(...tools)
    if (tools.length === 0) unread.set(key, options)
  }
  const tools: readonly KnownTool[] = [...own, ...imported]
  return { tools, sources: [...sources.keys()], unread }
}

/** Sources of the config and of the store. If both have a source with the same key, the config's source is used. */
export async function knownSources(
  configured: Iterable<readonly [string, SourceOptions]>,
  store: Pick<Store, 'sources'> | undefined,
): Promise<ReadonlyMap<string, SourceOptions>> {
  const sources = new Map(configured)
  for (const { key, options } of (await store?.sources.list()) ?? []) {
    const parsed = SOURCE_OPTIONS.safeParse(options)
    if (parsed.success && !sources.has(key)) sources.set(key, parsed.data)
  }
  return sources
}

/**
 * The known tools as they would be listed, and the keys of sources without a known tool. Sources are created, so that their
 * options apply, but not read. Without a store there are no pins.
 */
export async function projectKnownTools(
  settings: Pick<Settings, 'sources' | 'tools' | 'folder' | 'calls' | 'openwop'>,
  store: Pick<Store, 'sources' | 'pins'> | undefined,
  clock: Clock,
) {
  if (store === undefined) return { tools: settings.tools, unread: [...settings.sources.keys()] }
  const services = { fetch: refuseToFetch, clock, log: SILENT_LOGGER, folder: settings.folder }
  const pins = new Pins({ store, clock, log: SILENT_LOGGER })
  const imported: { readonly key: string; readonly tools: readonly Tool[] }[] = []
  const unread: string[] = []
  for (const [key, options] of await knownSources(settings.sources, store)) {
    const kind = sourceKind(options)
    const source: Source = await openSource(key, options, services).catch((error: unknown) =>
      failedSource({ key, type: options.type, kind }, error),
    )
    try {
      const accepted = await pins.accepted(key)
      if (accepted.length === 0) unread.push(key)
      const pinned = accepted.filter(({ offered }) => source.wants?.(offered) ?? true)
      const { tools } = await projectTools(source, pinned, {
        defaultTimeoutMs: settings.calls.defaultTimeoutMs,
        vendor: settings.openwop.vendor,
      })
      imported.push({ key, tools })
    } finally {
      await source.close()
    }
  }
  return { tools: (await joinTools(settings.tools, imported)).tools, unread, pins }
}

async function refuseToFetch(): Promise<never> {
  throw fault('internal', 'A command that only lists known tools must not read a source.')
}

/** The policy of a tool as far as its author or the operator wrote it. */
type PartialPolicy = { readonly [Name in keyof KnownTool['policy']]?: KnownTool['policy'][Name] | undefined }

type Pin = Awaited<ReturnType<Store['pins']['read']>>['pins'][number]

type AcceptedPin = Pick<Pin, 'nativeName' | 'local'> & { readonly accepted: AcceptedDefinition }

/** The parts of the names of an accepted tool, as its source would name it. */
export function namingOfPin(
  key: string,
  options: SourceOptions,
  { nativeName, local, accepted }: AcceptedPin,
): Naming {
  return namingOf(key, { nativeName, local, version: accepted.version }, keptIdOf(options, accepted.offered))
}

function toKnown(
  key: string,
  options: SourceOptions,
  { nativeName, local, accepted }: Pin,
  ownVendor: string,
): KnownTool | readonly [] {
  if (accepted === undefined) return []
  const { offered } = accepted
  const naming = namingOfPin(key, options, { nativeName, local, accepted })
  const { toolkit, local: name, version, keptFrom } = naming
  // The options take precedence over the source's own policy, as when the tool is served.
  const own: PartialPolicy = options.type === 'custom' ? {} : writtenPolicy(nativeName, options)
  const safetyTier = own.safetyTier ?? offered.policy.safetyTier ?? 'write'
  const scopes = own.scopes ?? offered.policy.scopes ?? []
  const tenants = own.tenants ?? offered.policy.tenants
  const kind = sourceKind(options)
  const writtenVendor = options.type === 'custom' ? undefined : options.vendor
  const vendor = writtenVendor ?? (kind === 'host-extension' ? toolkit : ownVendor)
  return {
    parts: { base: `${toolkit}.${name}`, toolkit, name, version },
    name: functionNameOf(toolkit, name),
    catalogId: catalogIdOf(kind, { ...catalogNames(naming), vendor, safetyTier }),
    nativeName: naming.nativeName,
    ...defined({ keptFrom }),
    ...tagsOf(offered),
    policy: defined({ safetyTier, scopes, tenants }),
  }
}

/** All scopes that a source's options require from callers of its tools. */
export function scopesOf(options: SourceOptions): readonly string[] {
  if (options.type === 'custom') return []
  const policies: readonly (PartialPolicy | undefined)[] = [options.policy, ...Object.values(options.tools)]
  return policies.flatMap((policy) => policy?.scopes ?? [])
}
