import { hash } from 'node:crypto'
import { SOURCE_OPTIONS, type SourceOptions } from '#config/schema'
import type { Settings } from '#config/settings'
import { fault } from '#core/errors'
import { PinDesk } from '#core/imports/pins'
import { projectTools } from '#core/imports/project'
import { FailedSource, SourceDesk, type WantedSource } from '#core/imports/sources'
import type { Source } from '#core/ports/source'
import type { Store } from '#core/ports/store'
import { boundLogger, type Clock, type Logger } from '#core/runtime'
import type { LiveRegistry } from '#core/tools/catalog'
import { createGuardedFetch } from '#egress/guarded-fetch'
import type { Listener } from '#egress/policy'
import { createSource, kindOf } from './create-source.ts'
import { hideSourceSecrets } from './hide-source-secrets.ts'
import { sourceHosts } from './source-hosts.ts'
import { overridesOf } from './source-overrides.ts'

const LONGEST_REQUEST_MS = 24 * 3_600_000
const MOST_DESCRIPTION_BYTES = 64 * 1024 * 1024

export interface OpenSourcesOptions {
  readonly registry: LiveRegistry
  readonly store: Pick<Store, 'pins' | 'sources'>
  readonly clock: Clock
  readonly log: Logger
  ownListeners(): readonly Listener[]
}

export interface OpenSources {
  readonly desk: SourceDesk
  readonly pins: PinDesk
}

/** The sources of the configuration and of the store. A key in both means the configuration's. */
export function openSources(settings: Settings, options: OpenSourcesOptions): OpenSources {
  const { registry, store, clock, log } = options
  const pins = new PinDesk({ store, clock, log })
  const desk = new SourceDesk({
    ...{ registry, pins, clock, log },
    own: { tools: settings.tools, toolkits: settings.toolkits },
    project: (source, pinned) =>
      projectTools(source, pinned, { defaultTimeoutMs: settings.calls.defaultTimeoutMs }),
    epoch: async () => `${await store.sources.epoch()} ${await store.pins.epoch()}`,
    wanted: async () => [
      ...[...settings.sources].map(([key, source]) => wantedOf(key, source, 'configuration')),
      ...(await store.sources.list())
        .filter(({ key }) => !settings.sources.has(key))
        .map(({ key, options: written, addedMs }) => {
          const revision = hash('sha256', JSON.stringify([written, addedMs]))
          const parsed = SOURCE_OPTIONS.safeParse(written)
          return parsed.success ? wantedOf(key, parsed.data, revision) : unreadable(key, revision)
        }),
    ],
  })
  return { desk, pins }

  function wantedOf(key: string, source: SourceOptions, revision: string): WantedSource {
    return {
      ...{ key, revision, type: source.type, kind: kindOf(source) },
      ...(source.description === undefined ? {} : { description: source.description }),
      overrides: overridesOf(key, source, { ...settings, sourceKeys: settings.sources.keys() }),
      open: () => open(key, source),
    }
  }

  /** Each has a way out of its own: the operator wrote down where its upstream is, and that opens nothing to others (rule 33). */
  function open(key: string, source: SourceOptions): Source {
    const wayOut = (maxResponseBytes: number) =>
      createGuardedFetch({
        ...settings.egress,
        maxResponseBytes,
        // Calls end with their own signal, and streams of events stay open.
        timeoutMs: LONGEST_REQUEST_MS,
        allow: [...settings.egress.allow, ...sourceHosts(source)],
        ownListeners: options.ownListeners,
      })
    const { maxResponseBytes } = settings.egress
    const calls = wayOut(maxResponseBytes)
    const descriptions = wayOut(Math.max(maxResponseBytes, MOST_DESCRIPTION_BYTES))
    const opened = createSource(key, source, {
      fetch: calls,
      fetchDescription: descriptions,
      clock,
      log: boundLogger(log, { source: key }),
      folder: settings.folder,
      ...(settings.variables === undefined ? {} : { environment: settings.variables() }),
    })
    return closingWith(hideSourceSecrets(opened, source), async () => {
      await Promise.all([calls.close(), descriptions.close()])
    })
  }
}

/** The same source, which lets its connections go when it is closed. */
function closingWith(source: Source, close: () => Promise<void>): Source {
  const inner = source.close.bind(source)
  source.close = async () => {
    await inner()
    await close()
  }
  return source
}

/** Written by a newer version, or by hand. */
function unreadable(key: string, revision: string): WantedSource {
  const error = fault(
    'request_invalid',
    'Its options in the store cannot be read by this version. Import it again: collet import --key.',
  )
  return {
    key,
    revision,
    type: 'unknown',
    kind: 'connector',
    open: () => new FailedSource({ key, type: 'unknown', kind: 'connector' }, error),
  }
}
