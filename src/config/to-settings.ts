import { didYouMean } from '#core/nearest-name'
import { DEFAULT_TENANT } from '#core/principal'
import type { Hooks } from '#core/runtime'
import type { Tool } from '#core/tool'
import { toApprovalRules } from './approvals-schema.ts'
import { checkApprovals } from './check-approvals.ts'
import { ConfigError } from './config-error.ts'
import { LOG_LEVELS } from './config-schema.ts'
import { decodeMasterKey, type Environment } from './environment.ts'
import { checkLimits, toLimitSettings } from './limit-settings.ts'
import type { LoadedConfig } from './load-config.ts'
import { locateStore, type StoreLocation } from './locate-store.ts'
import { toOAuthSettings } from './oauth-settings.ts'
import type { Settings } from './settings.ts'

/** What the command line may overrule. */
export interface SettingsFlags {
  readonly host?: string
  readonly port?: number
  /** Relative to the working folder, unlike the config's own. */
  readonly store?: string
}

export interface SettingsSources {
  readonly loaded: LoadedConfig
  readonly tools: readonly Tool[]
  readonly flags: SettingsFlags
  readonly environment: Environment
  readonly workingFolder: string
}

/** Flags before environment variables before the config file before defaults. */
export function toSettings({ loaded, tools, flags, environment, workingFolder }: SettingsSources): Settings {
  const { config, folder } = loaded
  const { store, dataFolder } = chooseStore(flags.store, workingFolder, { text: config.store, folder })
  const { jwt } = config.auth
  checkAgainstTools(loaded, tools)
  return {
    tools,
    toolkits: new Map(Object.entries(config.toolkits).map(([name, { description }]) => [name, description])),
    sources: new Map(Object.entries(config.sources)),
    folder,
    variables: environment.variables,
    server: {
      ...config.server,
      host: flags.host ?? config.server.host,
      port: flags.port ?? config.server.port,
      publicUrl: config.server.publicUrl,
      metricsPort: config.server.metricsPort,
      metricsHost: config.server.metricsHost,
    },
    store,
    dataFolder,
    masterKey: decodeMasterKey(environment.masterKey),
    auth: {
      apiKeys: config.auth.apiKeys,
      jwt: jwt === undefined ? undefined : { ...jwt, tenant: DEFAULT_TENANT },
      issuers: config.auth.issuers,
      roles: new Map(Object.entries(config.auth.roles)),
      required: config.auth.required,
    },
    oauth: toOAuthSettings(config.oauth, tools, loaded.file),
    calls: config.calls,
    journal: config.journal,
    egress: config.egress,
    limits: toLimitSettings(config.limits),
    budgets: config.budgets,
    openwop: config.openwop,
    otc: { ...config.otc, omitListKey: config.otc.omitListKey },
    opentool: {
      ...config.opentool,
      version: config.opentool.version,
      description: config.opentool.description,
    },
    mcp: { ...config.mcp, instructions: config.mcp.instructions },
    approvals: toApprovalRules(config.approvals),
    hooks: givenHooks(config.hooks),
    logLevel: environment.logLevel === undefined ? config.log.level : logLevel(environment.logLevel),
    otlpEndpoint: otlpEndpoint(environment.otlpEndpoint) ?? config.telemetry.otlpEndpoint,
  }
}

/** What a config can only be checked for once its tools are known. */
export function checkAgainstTools({ config, file }: LoadedConfig, tools: readonly Tool[]): void {
  checkLimits(config, tools, file)
  checkApprovals(config, tools, file)
  toOAuthSettings(config.oauth, tools, file)
}

function givenHooks({ admit, verifyToken, bindUser }: LoadedConfig['config']['hooks']): Hooks {
  return {
    ...(admit === undefined ? {} : { admit }),
    ...(verifyToken === undefined ? {} : { verifyToken }),
    ...(bindUser === undefined ? {} : { bindUser }),
  }
}

/** `--store` if given, else the config's store. */
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
  throw new ConfigError([{ severity: 'error', where: 'COLLET_LOG_LEVEL', message }])
}

function otlpEndpoint(text: string | undefined): string | undefined {
  if (text === undefined || /^https?:$/.test(URL.parse(text)?.protocol ?? '')) return text
  const message = 'expected an http or https URL, for example "http://127.0.0.1:4318".'
  throw new ConfigError([{ severity: 'error', where: 'OTEL_EXPORTER_OTLP_ENDPOINT', message }])
}
