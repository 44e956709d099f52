import type { ApprovalRules } from '#core/approvals/approvals'
import type { BudgetRule } from '#core/limits/budgets'
import type { LimitSettings } from '#core/limits/settings'
import type { RoleTable } from '#core/principal'
import type { Hooks } from '#core/runtime'
import type { Secret } from '#core/secret'
import type { Tool } from '#core/tool'
import type { ProtocolSettings } from '#protocols/list'
import type { SourceOptions } from '#sources/source-types'

/** What an issuer may sign with; nothing symmetric, so that a public key is never a secret (RFC 8725 §2.1). */
export const ISSUER_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const

export type IssuerAlgorithm = (typeof ISSUER_ALGORITHMS)[number]

export interface ApiKeySettings {
  /** Principal `key:<id>`. Several entries may share an id: a rotated key of the same principal. */
  readonly id: string
  readonly key: Secret
  readonly tenant: string
  readonly scopes: readonly string[]
  /** Names in `auth.roles`. */
  readonly roles?: readonly string[]
  /** Allow-list of tools by any of their names; absent = every tool the scopes open (OWP-57). */
  readonly tools?: readonly string[] | undefined
  readonly expiresAtMs?: number | undefined
  /** For people. */
  readonly label?: string | undefined
}

/** An OpenID Connect issuer whose access tokens are taken. */
export interface IssuerSettings {
  /** Exactly as in the `iss` of its tokens. */
  readonly issuer: string
  /** One of them must be in `aud`. */
  readonly audiences: readonly string[]
  /** `undefined` = found by discovery. */
  readonly jwksUri: string | undefined
  /** Where in a token what is; each a path of member names. */
  readonly claims: {
    /** `undefined` = the tenant is `tenant`, whatever the token says. */
    readonly tenant: readonly string[] | undefined
    /** `undefined` = `scope`. */
    readonly scopes: readonly string[] | undefined
    /** `undefined` = tokens bring no roles. */
    readonly roles: readonly string[] | undefined
  }
  readonly tenant: string
  /** Whether a token may name the tenant `default`. */
  readonly allowDefaultTenant?: boolean
  /** `undefined` = every one that is not symmetric. */
  readonly algorithms: readonly IssuerAlgorithm[] | undefined
}

export interface JwtSettings {
  readonly secret: Secret
  /** Accepted `aud` values; empty = a token that has an `aud` is refused (OTC-109). */
  readonly audiences: readonly string[]
  readonly maxLifetimeSeconds: number
  readonly tenant: string
}

export interface OAuthClientSettings {
  readonly clientId: string
  readonly clientSecret: Secret | undefined
  readonly clientAuth: 'basic' | 'post' | 'none'
  readonly issuer: string | undefined
  readonly authorizationEndpoint: string | undefined
  readonly tokenEndpoint: string | undefined
  readonly revocationEndpoint: string | undefined
  /** Whom tokens are for (RFC 8707); left out of the requests when absent. */
  readonly resource?: string | undefined
}

export interface OAuthProviderSettings extends OAuthClientSettings {
  /** All that may be asked for; `undefined` = any. */
  readonly scopes: readonly string[] | undefined
  readonly alwaysScopes: readonly string[]
  readonly parameters: Readonly<Record<string, string>>
}

export interface SignInSettings extends OAuthClientSettings {
  readonly scopes: readonly string[]
  readonly userClaim: string
  /** User ids that may consent for a principal itself. */
  readonly owners: Readonly<Record<string, readonly string[]>>
}

export interface OAuthSettings {
  readonly providers: Readonly<Record<string, OAuthProviderSettings>>
  readonly signIn: SignInSettings | undefined
  readonly allowUnboundConsent: boolean
}

/** Everything the server needs, checked and with every default filled in. Nothing below this reads a file or the environment. */
export interface Settings extends ProtocolSettings {
  readonly tools: readonly Tool[]
  /** Descriptions by toolkit name. */
  readonly toolkits: ReadonlyMap<string, string>
  /** Where further tools come from, by key; more may be in the store. */
  readonly sources: ReadonlyMap<string, SourceOptions>
  /** What relative paths in the sources' options are relative to. */
  readonly folder: string
  /** Variables of this process, for programs that sources start; each gets only what its options name. */
  readonly variables?: () => Readonly<Record<string, string | undefined>>
  readonly server: {
    readonly host: string
    readonly port: number
    /** Absolute URL without a trailing slash; `undefined` = the bound address. */
    readonly publicUrl: string | undefined
    readonly bodyLimitBytes: number
    /** Further `Origin` values that may call us (no CORS otherwise). */
    readonly allowedOrigins: readonly string[]
    /** A listener of its own for `/metrics`, without credentials; `undefined` = none. */
    readonly metricsPort?: number | undefined
    /** What that listener is bound to; default 127.0.0.1. */
    readonly metricsHost?: string | undefined
    /** Further connections are closed at once. */
    readonly maxConnections: number
  }
  /** `sqlite:PATH` (absolute) or `memory:`. */
  readonly store: string
  /** Folder for the key file and the start token, absolute. */
  readonly dataFolder: string
  /** `COLLET_KEY`, decoded to 32 bytes; `undefined` = the key file in `dataFolder`. */
  readonly masterKey: Uint8Array | undefined
  readonly auth: {
    readonly apiKeys: readonly ApiKeySettings[]
    readonly jwt: JwtSettings | undefined
    readonly issuers?: readonly IssuerSettings[]
    /** Scopes by role. */
    readonly roles?: RoleTable
    /** Nobody without a credential, also before there is any. */
    readonly required?: boolean
  }
  readonly oauth: OAuthSettings
  readonly calls: {
    readonly retentionHours: number
    readonly defaultTimeoutMs: number
    readonly maxResultBytes: number
  }
  readonly journal: { readonly retentionDays: number }
  readonly egress: {
    /** Local hosts and ranges that tools may reach. */
    readonly allow: readonly string[]
    readonly maxResponseBytes: number
    readonly timeoutMs: number
    readonly maxRedirects: number
  }
  readonly limits: LimitSettings
  readonly budgets: readonly BudgetRule[]
  readonly approvals: ApprovalRules
  readonly hooks: Hooks
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  /** OTLP/HTTP endpoint for traces, e.g. `http://127.0.0.1:4318`; `undefined` = no export. */
  readonly otlpEndpoint: string | undefined
}
