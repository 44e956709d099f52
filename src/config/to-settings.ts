import { dirname, join, resolve } from 'node:path'
import { DEFAULT_PORTS } from '#egress/policy'
import { namesFor } from '#kernel/approval/approvals'
import { parseToolName } from '#kernel/base/ids'
import { defined } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import { DEFAULT_TENANT } from '#kernel/base/principal'
import type { Tool } from '#kernel/tool/tool'
import { toolkitOf } from '#sources/kit/project'
import type { CallLimit, LimitSettings, TokenRate, ToolLimit } from '#stages/limits/settings'
import { parseStoreUrl } from '#store/stores'
import { decodeMasterKeys, type Environment } from './environment.ts'
import { ConfigError, configError, type LoadedConfig } from './load.ts'
import { otlpEndpoint, toOtlpSettings } from './otlp.ts'
import { LOG_LEVELS, type ParsedConfig, PROTOCOL_SECTIONS } from './schema.ts'
import { OAUTH } from './schema-oauth.ts'
import { toApprovalRules } from './schema-policies.ts'
import type { Settings } from './settings.ts'
import { toWebhooks } from './webhooks.ts'

/*
 * Turns a checked config, flags and the environment into `Settings`.
 * Used by `collet serve`, `collet mcp`, reloads and the embedded gateway.
 * Invariant: flags override environment variables, which override the config, which overrides defaults.
 */

/** File of the generated master key, which is used if `COLLET_KEY` is not set (rule 14). */
export function keyFileIn(dataFolder: string): string {
  return join(dataFolder, 'key')
}

/**
 * File of the start token, the operator's credential for every user who can read the data folder (rule 29). It is named after the
 * port, because several servers may share one folder, each with its own port.
 */
export function startTokenFileIn(dataFolder: string, serverUrl: string): string {
  return join(dataFolder, `start-token-${portOf(new URL(serverUrl))}`)
}

/** Token file of a process that serves only the approval pages, named so that no command mistakes it for a server's. */
export function pagesTokenFileIn(dataFolder: string, pagesUrl: string): string {
  return join(dataFolder, `pages-token-${portOf(new URL(pagesUrl))}`)
}

/** The port of an http or https URL, even if the URL leaves its default port out. */
export function portOf({ port, protocol }: URL): number {
  return port === '' ? DEFAULT_PORTS[protocol === 'https:' ? 'https:' : 'http:'] : Number(port)
}

/** Path of a server behind a proxy; empty at the root. */
export function basePath(publicUrl: string): string {
  return new URL(publicUrl).pathname.replace(/\/$/, '')
}

/** Expected address of a server with these settings, before it listens. */
export function plannedUrl({ publicUrl, host, port, tls }: Settings['server']): string {
  return publicUrl ?? `${tls === undefined ? 'http' : 'https'}://${host}:${port}`
}

export interface SettingsFlags {
  readonly host?: string
  readonly port?: number
  /** Relative to the working folder, unlike the store in the config. */
  readonly store?: string
  readonly migrates?: boolean
}

interface SettingsSources {
  readonly loaded: LoadedConfig
  readonly tools: readonly Tool[]
  readonly flags: SettingsFlags
  readonly environment: Environment
  readonly workingFolder: string
}

export function toSettings({ loaded, tools, flags, environment, workingFolder }: SettingsSources): Settings {
  const { config, folder } = loaded
  const { store, dataFolder } = chooseStore(flags.store, workingFolder, { text: config.store, folder })
  const { jwt } = config.auth
  checkAgainstTools(loaded, tools)
  return {
    tools,
    toolkits: new Map(Object.entries(config.toolkits).map(([name, { description }]) => [name, description])),
    toolsets: new Map(Object.entries(config.toolsets)),
    sources: new Map(Object.entries(config.sources)),
    folder,
    variables: environment.variables,
    server: {
      ...config.server,
      ...tlsFiles(config.server.tls, folder),
      host: flags.host ?? config.server.host,
      port: flags.port ?? config.server.port,
    },
    store,
    migrates: flags.migrates ?? true,
    dataFolder,
    ...decodeMasterKeys(environment),
    auth: {
      ...config.auth,
      jwt: jwt === undefined ? undefined : { ...jwt, tenant: DEFAULT_TENANT },
      roles: new Map(Object.entries(config.auth.roles)),
    },
    oauth: withSourceProviders(config),
    console: config.console,
    calls: config.calls,
    results: config.results,
    journal: config.journal,
    egress: config.egress,
    limits: toLimitSettings(config.limits),
    budgets: config.budgets,
    ...PROTOCOL_SECTIONS.parse(config),
    approvals: toApprovalRules(config.approvals),
    webhooks: toWebhooks(config, loaded.file),
    alerts: config.alerts,
    hooks: defined(config.hooks),
    search: config.search,
    logLevel: environment.logLevel === undefined ? config.log.level : logLevel(environment.logLevel),
    logStyle: { format: config.log.format, isColored: !environment.noColor },
    otlpEndpoint: otlpEndpoint(environment.variables(), config.telemetry),
    otlp: toOtlpSettings(environment.variables(), config.telemetry),
    tenantLabel: config.telemetry.tenantLabel,
  }
}

export function checkAgainstTools(
  { config, file }: Pick<LoadedConfig, 'config' | 'file'>,
  tools: readonly Tool[],
): void {
  const found = [limitProblems, approvalProblems, oauthProblems].flatMap((find) => find(config, tools))
  if (found.length > 0)
    throw new ConfigError(found.map(([where, message]) => ({ severity: 'error', file, where, message })))
  toWebhooks(config, file)
}

/** The providers of the config, and one for each MCP server that names its authorization server itself. */
function withSourceProviders({ oauth, sources }: ParsedConfig): ParsedConfig['oauth'] {
  const found = Object.entries(sources).flatMap(([key, source]): [string, object][] =>
    source.type === 'mcp' && source.authorization?.provider === '' && !Object.hasOwn(oauth.providers, key)
      ? [[key, { resource: source.url }]]
      : [],
  )
  if (found.length === 0) return oauth
  const { providers } = OAUTH.parse({ providers: Object.fromEntries(found) })
  return { ...oauth, providers: { ...oauth.providers, ...providers } }
}

export function tlsFiles(
  tls: ParsedConfig['server']['tls'],
  folder: string,
): Pick<ParsedConfig['server'], 'tls'> {
  return tls === undefined ? {} : { tls: { cert: resolve(folder, tls.cert), key: resolve(folder, tls.key) } }
}

export function chooseStore(
  flag: string | undefined,
  workingFolder: string,
  configured: { readonly text: string; readonly folder: string },
): StoreLocation {
  return flag === undefined
    ? locateStore(configured.text, configured.folder, 'store')
    : locateStore(flag, workingFolder, '--store')
}

function logLevel(text: string): Settings['logLevel'] {
  const level = LOG_LEVELS.find((known) => known === text)
  if (level !== undefined) return level
  const message = `expected one of ${LOG_LEVELS.join(', ')}.${didYouMean(text, LOG_LEVELS)}`
  throw configError(message, { where: 'COLLET_LOG_LEVEL' })
}

/**
 * Finds tools that need scopes which their provider does not allow (OWP-79). A provider without an entry is allowed, because callers then
 * send its tokens. A name that is similar to an entry counts as a misspelling.
 */
function oauthProblems({ oauth: { providers } }: ParsedConfig, tools: readonly Tool[]): Problem[] {
  const names = Object.keys(providers)
  const needs = tools.flatMap(({ id, requirements }) =>
    (requirements?.authorization ?? []).map((need) => ({ tool: id, ...need })),
  )
  return needs.flatMap(({ tool, id, oauth2 }): Problem[] => {
    const provider = Object.hasOwn(providers, id) ? providers[id] : undefined
    const hint = provider === undefined && names.length > 0 ? didYouMean(id, names) : ''
    const where = `${tool} requirements.authorization`
    if (hint !== '') return [[where, `oauth_provider_unsupported: "${id}" is not in oauth.providers.${hint}`]]
    const allowed = provider?.scopes
    const missing =
      allowed === undefined ? [] : (oauth2?.scopes ?? []).filter((scope) => !allowed.includes(scope))
    if (missing.length === 0) return []
    const scopes = `oauth.providers.${id}.scopes does not include ${missing.join(', ')}`
    return [[where, `oauth_scope_unsupported: ${scopes}.`]]
  })
}

/** The store, and the folder of the key file and the start token; paths are absolute. */
export interface StoreLocation {
  /** `sqlite:PATH` with an absolute path, `postgres://…` as written, or `memory:`. */
  readonly store: string
  /** Only a `memory` store cannot be read by other processes. */
  readonly kind: 'file' | 'server' | 'memory'
  /** The database file, if there is one. */
  readonly file: string | undefined
  /** Next to the database file, because the key belongs to the database. */
  readonly dataFolder: string
}

/** Makes a store address absolute. `where` names the setting it came from. */
export function locateStore(text: string, base: string, where: string): StoreLocation {
  const url = parseStoreUrl(text)
  if (url.kind === 'invalid') throw configError(url.problem, { where })
  if (url.kind !== 'file')
    return { store: text, kind: url.kind, file: undefined, dataFolder: join(base, '.collet') }
  const file = resolve(base, url.path)
  return { store: `${url.scheme}:${file}`, kind: url.kind, file, dataFolder: dirname(file) }
}

type WrittenLimits = ParsedConfig['limits']
type WrittenLimit = WrittenLimits['perPrincipal']
const MINUTE_MS = 60_000

/** Limits with every default filled in: a specific entry inherits from the general one. */
function toLimitSettings({ byPrincipal, byTool, total, waiting, ...general }: WrittenLimits): LimitSettings {
  const { longestSeconds, ...bounds } = waiting
  const perPrincipal = toLimit(general.perPrincipal)
  const perTool = toToolLimit(general.perTool)
  return {
    perPrincipal,
    byPrincipal: new Map(
      Object.entries(byPrincipal).map(([id, limit]) => [id, toLimit(limit, perPrincipal)]),
    ),
    perTool,
    byTool: new Map(Object.entries(byTool).map(([base, limit]) => [base, toToolLimit(limit, perTool)])),
    total: { ...total, rate: toRate(total) },
    waiting: { ...bounds, maxMs: longestSeconds * 1_000 },
  }
}

function toToolLimit(written: WrittenLimits['perTool'], general?: ToolLimit): ToolLimit {
  return {
    ...toLimit(written, general),
    perPrincipal: toLimit(written.perPrincipal, general?.perPrincipal),
  }
}

function toLimit(written: WrittenLimit, general?: CallLimit): CallLimit {
  return {
    rate: toRate(written) ?? general?.rate,
    concurrent: written.concurrent ?? general?.concurrent,
  }
}

function toRate({ callsPerMinute, burst }: Omit<WrittenLimit, 'concurrent'>): TokenRate | undefined {
  if (callsPerMinute === undefined) return undefined
  return { perMs: callsPerMinute / MINUTE_MS, burst: burst ?? Math.max(1, Math.floor(callsPerMinute / 10)) }
}

type Problem = readonly [where: string, message: string]

/** Finds limits for unknown tools, which protect nothing, and budgets too small for any call. */
function limitProblems({ limits, budgets, sources }: ParsedConfig, tools: readonly Tool[]): Problem[] {
  const form = 'a name without a version, such as "Mail.Send"'
  const entries = { section: 'limits.byTool', names: Object.keys(limits.byTool), form }
  return [
    ...nameProblems(entries, tools, ({ parts, name, catalogId }) => [parts.base, name, catalogId], sources),
    ...budgets.flatMap(({ limit }, index): Problem[] => {
      const slow = tools.find(({ policy }) => policy.timeoutMs > limit.milliseconds)
      if (slow === undefined) return []
      const timeout = `the timeoutMs of ${slow.id} (${slow.policy.timeoutMs})`
      const message = `is less than ${timeout}, which is reserved while it runs, so the tool would never run.`
      return [[`budgets[${index}].seconds`, message]]
    }),
  ]
}

/** Finds terms for misspelled tools, which would leave the intended tools with weaker terms, and predicates that are never called. */
function approvalProblems({ approvals, sources }: ParsedConfig, tools: readonly Tool[]): Problem[] {
  const section = 'approvals.perTool'
  const form = '"Toolkit.Name", "Toolkit.Name@x.y.z" or another name of the tool'
  const entries = { section, names: Object.keys(approvals.perTool), form }
  const unused = Object.entries(approvals.perTool).flatMap(([name, { when }]) =>
    when === undefined
      ? []
      : tools.filter((tool) => namesFor(tool).includes(name) && tool.policy.approval !== 'conditional'),
  )
  return [
    ...nameProblems(entries, tools, namesFor, sources),
    ...unused.map(({ id, policy }): Problem => {
      const message = `${id} has the approval '${policy.approval}', so \`when\` is never called. Set policy.approval: 'conditional' on the tool, or leave \`when\` out.`
      return [section, message]
    }),
  ]
}

/** Finds entries for unknown tools, and second entries for a tool under another of its names, which would have no effect. */
function nameProblems(
  { section, names, form }: { readonly section: string; readonly names: string[]; readonly form: string },
  tools: readonly Tool[],
  namesOf: (tool: Tool) => readonly string[],
  sources: ParsedConfig['sources'],
): Problem[] {
  const known = tools.map(namesOf)
  const all = new Set(known.flat())
  const takesVersions = namesOf === namesFor
  const unknown = names.filter(
    (name) =>
      !all.has(name) &&
      ((!takesVersions && name.includes('@')) || !isImported(name, Object.entries(sources))),
  )
  const secondEntries = new Map<string, string>()
  for (const own of known) {
    for (const isVersioned of [true, false]) {
      const [first = '', ...others] = names.filter(
        (name) => name.includes('@') === isVersioned && own.includes(name),
      )
      for (const other of others) secondEntries.set(other, first)
    }
  }
  return [
    ...unknown.map((name) => [name, `there is no such tool. Write ${form}.${didYouMean(name, [...all])}`]),
    ...[...secondEntries].map(([name, first]) => [
      name,
      `is another name for the tool of ${section}.${first}. Write only one entry for it.`,
    ]),
  ].map(([name, message = '']) => [`${section}.${name}`, message])
}

const KEYSPACE = /^[a-z]+:/

/** Whether a source keeps the ids of its upstream, so that it may have any tool. */
export function keepsIds(options: unknown): boolean {
  return typeof options === 'object' && options !== null && 'ids' in options && options.ids === 'keep'
}

/** True if a tool of this name may come from a source; the tools of a source are known only after it has been read. */
export function isImported(name: string, sources: Iterable<readonly [string, unknown]>): boolean {
  const { base } = parseToolName(name) ?? { base: name }
  const bare = base.replace(KEYSPACE, '')
  return [...sources].some(([key, options]) => {
    if (keepsIds(options)) return true
    const toolkit = toolkitOf(key)
    const isInToolkit = ['.', '_'].some((border) => bare.startsWith(`${toolkit}${border}`))
    return isInToolkit || base.startsWith('x-host-')
  })
}
