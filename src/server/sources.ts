import { hash } from 'node:crypto'
import type { Settings } from '#config/settings'
import { isImported, keepsIds, portOf } from '#config/to-settings'
import { createGuardedFetch } from '#egress/guarded-fetch'
import type { Listener } from '#egress/policy'
import { type ApprovalRules, namesFor } from '#kernel/approval/approvals'
import type { Clock } from '#kernel/base/clock'
import { fault } from '#kernel/base/errors'
import { defined } from '#kernel/base/json'
import { boundLogger, type Logger } from '#kernel/base/logger'
import { DEFAULT_TENANT } from '#kernel/base/principal'
import { isSecretName, Secret } from '#kernel/base/secret'
import { cleanerFor } from '#kernel/call/redact'
import type { LiveRegistry } from '#kernel/tool/catalog'
import type { CatalogChanges } from '#kernel/tool/catalog-changes'
import { MAX_TIMER_MS, type Tool } from '#kernel/tool/tool'
import type { OAuthBroker } from '#oauth/broker'
import type { SourceOverride } from '#sources/kit/overrides'
import { Pins } from '#sources/kit/pins'
import { projectTools } from '#sources/kit/project'
import type { ListingNeed, RequestTelemetry, Source, SourceServices, UpstreamList } from '#sources/kit/source'
import { failedSource, Sources, type WantedSource } from '#sources/kit/sources'
import { openSource, SOURCE_OPTIONS, type SourceOptions, sourceKind } from '#sources/source-types'
import { type CredentialNeeds, findToken, TokenRefresher } from '#stages/credentials/credentials'
import type { Store } from '#store/collet-store'
import type { ServerPart } from './part.ts'
import { isSame } from './reload.ts'

/*
 * Opens the sources of the configuration and of the store, each with its own guarded `fetch`.
 * The composition root opens it; the admin API and imports use it. Invariant: no answer from a source contains a configured credential.
 */

const MAX_DESCRIPTION_BYTES = 64 * 1024 * 1024

interface OpenSourcesOptions {
  readonly registry: LiveRegistry
  readonly catalogChanges: CatalogChanges
  readonly store: Pick<Store, 'digest' | 'pins' | 'sources' | 'vault'>
  readonly clock: Clock
  readonly log: Logger
  ownListeners(): readonly Listener[]
  readonly telemetry?: RequestTelemetry | undefined
  /** Provides the tokens with which sources call their upstreams. */
  readonly broker: OAuthBroker
}

export interface OpenSources extends ServerPart {
  readonly sources: Sources
  readonly pins: Pins
  /** The options of a source, and whether the source is in the configuration; `undefined` if there is no such source. */
  find(key: string): FoundOptions | undefined
  /** Opens a second instance of a source, as the server would, with its own `fetch`. */
  openBeside(key: string, options: SourceOptions): Promise<OpenedSource>
}

/** The type of the `fetch` is written out, because the declarations of the package must not name types of Node. */
export interface OpenedSource {
  readonly source: Source
  readonly egress: typeof fetch & { reach(url: URL, signal: AbortSignal): AsyncGenerator<string> }
}

export interface FoundOptions {
  readonly options: SourceOptions
  readonly isConfigured: boolean
}

/** The sources of the configuration and of the store. If both have the same key, the configuration's source is used. */
export function openSources(initial: Settings, options: OpenSourcesOptions): OpenSources {
  const { registry, store, clock, log } = options
  let settings = initial
  /** How often the options of a configured source have changed. */
  const changes = new Map<string, number>()
  /** Sources of the store, as last read. */
  let stored: ReadonlyMap<string, SourceOptions> = new Map()
  const pins = new Pins({ store, clock, log })
  const tokens = sourceTokens(options)
  const sources = new Sources({
    ...{ registry, pins, clock, log },
    own: { tools: settings.tools, toolkits: settings.toolkits },
    announce: (key, lists) => announceLists(options, key, lists),
    project: (source, pinned, invoke) =>
      projectTools(source, pinned, {
        invoke,
        defaultTimeoutMs: settings.calls.defaultTimeoutMs,
        vendor: settings.openwop.vendor,
      }),
    // Both are read together, because each read of a remote database is a round trip.
    epoch: async () => (await Promise.all([store.sources.epoch(), store.pins.epoch()])).join(' '),
    wanted: async () => {
      const imported = (await store.sources.list()).map(({ key, options: written, addedMs }) => ({
        key,
        revision: hash('sha256', JSON.stringify([written, addedMs])),
        parsed: SOURCE_OPTIONS.safeParse(written),
      }))
      stored = new Map(imported.flatMap(({ key, parsed }) => (parsed.success ? [[key, parsed.data]] : [])))
      return [
        ...[...settings.sources].map(([key, source]) =>
          wantedOf(key, source, `configuration ${changes.get(key) ?? 0}`),
        ),
        ...imported
          .filter(({ key }) => !settings.sources.has(key))
          .map(({ key, revision, parsed }) =>
            parsed.success ? wantedOf(key, parsed.data, revision) : unreadable(key, revision),
          ),
      ]
    },
  })
  return {
    sources,
    pins,
    openBeside: open,
    find(key) {
      const configured = settings.sources.get(key)
      const found = configured ?? stored.get(key)
      return found === undefined ? undefined : { options: found, isConfigured: configured !== undefined }
    },
    async onReload({ sources: wanted, approvals }): Promise<undefined> {
      const before = settings.sources
      for (const key of new Set([...before.keys(), ...wanted.keys()]))
        if (!isSame(before.get(key), wanted.get(key))) changes.set(key, (changes.get(key) ?? 0) + 1)
      settings = { ...settings, sources: wanted, approvals }
      try {
        await sources.sync()
      } catch (err) {
        log.error({ err }, 'changed sources could not be opened and are tried again')
      }
    },
    close: () => sources.close(),
  }

  function wantedOf(key: string, source: SourceOptions, revision: string): WantedSource {
    return {
      key,
      revision,
      type: source.type,
      kind: sourceKind(source),
      ...defined({ description: source.description }),
      overrides: overridesOf(key, source, settings),
      open: async () => (await open(key, source)).source,
    }
  }

  /** Each source has its own guarded `fetch`, so that no other source can reach its configured upstream (rule 33). */
  async function open(key: string, source: SourceOptions): Promise<OpenedSource> {
    const egress = (maxResponseBytes: number) =>
      createGuardedFetch({
        ...settings.egress,
        maxResponseBytes,
        // Calls end with their own signal, and streams of events stay open.
        timeoutMs: MAX_TIMER_MS,
        allow: [...settings.egress.allow, ...sourceHosts(source)],
        ownListeners: options.ownListeners,
      })
    const { maxResponseBytes } = settings.egress
    const calls = egress(maxResponseBytes)
    const descriptions = egress(Math.max(maxResponseBytes, MAX_DESCRIPTION_BYTES))
    const opened = await openSource(key, source, {
      fetch: calls,
      fetchDescription: descriptions,
      send: calls.send,
      clock,
      log: boundLogger(log, { source: key }),
      folder: settings.folder,
      digest: (text) => store.digest(text),
      ...tokens,
      ...defined({ environment: settings.variables?.(), telemetry: options.telemetry }),
    })
    const redacted = redactSource(opened, source)
    const closing = overrideSource(redacted, {
      async close() {
        await redacted.close()
        await Promise.all([calls.close(), descriptions.close()])
      },
    })
    return { source: closing, egress: calls }
  }
}

/** Announces a source's changed lists only to callers that see its entries in these lists: a hidden source stays hidden (rule 2). */
function announceLists(
  { registry, catalogChanges }: Pick<OpenSourcesOptions, 'registry' | 'catalogChanges'>,
  key: string,
  lists: readonly UpstreamList[],
): void {
  catalogChanges.notify((principal, kind) => {
    const list = kind === undefined ? 'tools' : kind === 'prompt' ? 'prompts' : 'resources'
    if (!lists.includes(list) || (list === 'resources' && kind !== 'resources')) return false
    return registry
      .catalogFor(principal)
      .listed(kind)
      .some(({ parts }) => parts.toolkit === key)
  })
}

/** A view of a source in which some members are replaced; all others are those of the source itself. */
function overrideSource(source: Source, changes: Partial<Source>): Source {
  return new Proxy(source, {
    get(target, name) {
      const value: unknown = Reflect.get(Object.hasOwn(changes, name) ? changes : target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** A source in state `down` that represents stored options which this version cannot read. */
function unreadable(key: string, revision: string): WantedSource {
  const error = fault(
    'request_invalid',
    'Its options in the store cannot be read by this version. Import it again: collet import --key.',
  )
  const about = { key, type: 'unknown', kind: 'connector' } as const
  return { ...about, revision, open: () => failedSource(about, error) }
}

/** The parts of a configuration that may name individual tools. */
interface ToolRules {
  readonly approvals: Pick<ApprovalRules, 'perTool' | 'whenPerTool'>
  /** Tools written as code; overrides of these do not concern a source. */
  readonly tools: readonly Tool[]
  /** All sources, by key. */
  readonly sources: Iterable<readonly [string, SourceOptions]>
}

/** Overrides of individual tools of a source: in its options, and under `approvals`. */
export function overridesOf(
  key: string,
  options: SourceOptions,
  rules: ToolRules,
): readonly SourceOverride[] {
  return [...optionOverrides(options), ...approvalOverrides(key, options, rules)]
}

function optionOverrides(options: SourceOptions): readonly SourceOverride[] {
  if (options.type === 'custom') return []
  const { tools, include = [], exclude } = options
  return [
    ...Object.entries(tools).map(([name, { approval, scopes, tenants }]): SourceOverride => {
      const needsApproval = approval !== undefined && approval !== 'never'
      const hasScopes = scopes !== undefined && scopes.length > 0
      const rule = needsApproval
        ? 'approval'
        : hasScopes
          ? 'scope'
          : tenants === undefined
            ? undefined
            : 'tenant'
      const where = `tools.${name}`
      const guard = rule === undefined ? { guards: false } : { guards: true, rule: `${rule} rule` }
      return { where, name, of: 'native names', ...guard }
    }),
    ...include.map((name): SourceOverride => ({ where: 'include', name, of: 'patterns', guards: false })),
    ...exclude.map((name): SourceOverride => ({ where: 'exclude', name, of: 'patterns', guards: false })),
  ]
}

function approvalOverrides(
  key: string,
  options: SourceOptions,
  { approvals: { perTool, whenPerTool }, tools, sources }: ToolRules,
): readonly SourceOverride[] {
  const own = new Set(tools.flatMap(namesFor))
  const isOf = (name: string, source: string): boolean =>
    isImported(name, [[source, { type: source === key ? options.type : '' }]])
  // `Fs_2.read` begins with `Fs_` too: it belongs to the source with the longest matching name.
  const others = [...sources].filter(([other]) => other !== key)
  const longer = others.map(([other]) => other).filter((other) => other.startsWith(key))
  const naming = others.filter(([, other]) => !keepsIds(other))
  // A name that matches no key belongs to a source that keeps the ids of its upstream.
  const isUnmatched = (name: string): boolean => keepsIds(options) && !isImported(name, naming)
  const sharedWith = others.flatMap(([name, other]) => (keepsIds(options) && keepsIds(other) ? [name] : []))
  return [...perTool.keys()]
    .filter((name) => !own.has(name) && (isUnmatched(name) || isOf(name, key)))
    .filter((name) => !longer.some((other) => isOf(name, other)))
    .filter((name) => !isOfOtherHost(name, options))
    .map((name) => ({
      where: 'approvals.perTool',
      name,
      of: 'tools',
      guards: true,
      isPredicate: whenPerTool.has(name),
      sharedWith,
    }))
}

/** Commands are catalogued under their vendor, and two tables of commands may have different vendors. */
function isOfOtherHost(name: string, options: SourceOptions): boolean {
  const isHost = name.startsWith('x-host-') && options.type === 'command'
  return isHost && options.vendor !== undefined && !name.startsWith(`x-host-${options.vendor}-`)
}

/** Options with the address of an upstream. */
const ADDRESSES: ReadonlySet<string> = new Set(['url', 'baseUrl', 'document'])

/** The hosts that the operator wrote into a source's options, as entries of an egress allow-list. */
function sourceHosts(options: SourceOptions): readonly string[] {
  return Object.entries(options).flatMap(([name, value]) =>
    ADDRESSES.has(name) && typeof value === 'string' ? hostOf(value) : [],
  )
}

/** Hosts that the configuration names, as entries of an egress allow-list. */
export function configuredHosts(settings: Pick<Settings, 'auth' | 'oauth' | 'webhooks'>): readonly string[] {
  const { auth, oauth, webhooks = [] } = settings
  const providers = Object.values(oauth.providers)
  const urls = [
    ...(auth.issuers ?? []).flatMap(({ issuer, jwksUri }) => [issuer, jwksUri]),
    ...webhooks.map(({ url }) => url),
    ...providers.flatMap((each) => [
      ...[each.issuer, each.tokenEndpoint, each.revocationEndpoint, each.resource],
      ...[each.identityProvider?.issuer, each.identityProvider?.tokenEndpoint],
    ]),
    oauth.signIn?.issuer,
  ]
  return [...new Set(urls.flatMap((url) => (url === undefined ? [] : hostOf(url))))]
}

/** `host:port` of an address; empty for text that is not a URL. */
function hostOf(text: string): readonly string[] {
  const url = URL.parse(text)
  return url === null ? [] : [`${url.hostname}:${portOf(url)}`]
}

/** A source whose answers and failures do not contain its configured credentials, even if an upstream echoes them (OWP-58). */
export function redactSource(source: Source, options: SourceOptions): Source {
  const cleaner = cleanerFor(secretsIn(options))
  if (cleaner === undefined) return source
  return overrideSource(source, {
    async invoke(invocation) {
      try {
        return cleaner.output(await source.invoke(invocation))
      } catch (error) {
        throw cleaner.thrown(error)
      }
    },
  })
}

/**
 * Secrets in options of any type, if a member around them is named like a credential: headers and variables contain ordinary
 * words too (`application/json`), which must stay in answers.
 */
function secretsIn(value: unknown, isCredential = false): readonly Secret[] {
  if (value instanceof Secret) return isCredential ? spellingsOf(value) : []
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) =>
    secretsIn(member, isCredential || isSecretName(name)),
  )
}

/** Includes the bare credential, because a header has its scheme before the credential. */
function spellingsOf(secret: Secret): readonly Secret[] {
  const bare = /^(?:bearer|basic|token|apikey) +(\S+)$/i.exec(secret.reveal())?.[1]
  return bare === undefined ? [secret] : [new Secret(bare), secret]
}

const LISTING = 'listing'

type SourceTokensOptions = Omit<CredentialNeeds, 'refresher' | 'broker'> & {
  readonly broker: OAuthBroker
  readonly log: Logger
}

/**
 * Provides sources with tokens for listing, which has no caller, and explains the next step when an upstream refuses the token of a call.
 * A token that a principal consented to is used for listing only if the operator names that principal.
 */
function sourceTokens(
  options: SourceTokensOptions,
): Required<Pick<SourceServices, 'listingToken' | 'tokenRefused'>> {
  const { broker } = options
  const needs = { ...options, refresher: new TokenRefresher(options) }
  return {
    listingToken: (need) => listingToken(needs, broker, need),
    tokenRefused(refusal) {
      const { provider, scopes } = refusal
      if (!broker.refused(refusal)) return undefined
      return scopes.length === 0
        ? `Call the tool again: the token of ${provider} is renewed first.`
        : `It needs the scopes ${scopes.join(', ')} of ${provider}. Call the tool again to authorize them.`
    },
  }
}

async function listingToken(
  needs: CredentialNeeds,
  broker: OAuthBroker,
  { provider, scopes, as }: ListingNeed,
): Promise<Secret | undefined> {
  const own = await broker.obtain({ provider, scopes, owner: LISTING })
  if (own !== undefined) return own.kind === 'tokens' ? own.tokens.accessToken : undefined
  if (as === undefined) return undefined
  const owner = { tenant: DEFAULT_TENANT, principal: as, user: '' }
  const found = await findToken(needs, owner, { provider, scopes }).catch(() => undefined)
  return found?.ok === true ? found.value : undefined
}
