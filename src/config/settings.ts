import type { ApprovalRules } from '#kernel/approval/approvals'
import type { Hooks } from '#kernel/base/hooks'
import type { RoleTable } from '#kernel/base/principal'
import type { Secret } from '#kernel/base/secret'
import type { Tool } from '#kernel/tool/tool'
import type { Toolsets } from '#kernel/tool/toolsets'
import type { ProtocolSettings } from '#protocols/list'
import type { Embed } from '#search/embedding'
import type { SourceOptions } from '#sources/source-types'
import type { BudgetRule } from '#stages/limits/budgets'
import type { LimitSettings } from '#stages/limits/settings'
import type { OtlpSettings } from './otlp.ts'
import type { ParsedConfig } from './schema.ts'
import type { Webhook } from './webhooks.ts'

/*
 * The settings of a server: a checked config with flags, environment and defaults applied.
 * The composition root and all parts read it.
 * Invariant: settings are immutable, and code that gets them reads neither the config nor the environment.
 */

/** Algorithms that an issuer may sign with; none is symmetric, so that a public key is never used as a secret (RFC 8725 §2.1). */
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

/** Read-only at every depth; a secret stays as it is. */
type DeepReadonly<Value> = Value extends Secret
  ? Value
  : Value extends readonly (infer Item)[]
    ? readonly DeepReadonly<Item>[]
    : Value extends object
      ? { readonly [Name in keyof Value]: DeepReadonly<Value[Name]> }
      : Value
type WithOptional<Value, Name extends keyof Value> = Omit<Value, Name> & Partial<Pick<Value, Name>>

/** A section of the config with every default filled in; the schema describes its members. */
type Section<Name extends keyof ParsedConfig> = DeepReadonly<ParsedConfig[Name]>
type Auth = Section<'auth'>

export type ApiKeySettings = WithOptional<Auth['apiKeys'][number], 'roles' | 'expiresAtMs'>
export type IssuerSettings = WithOptional<Auth['issuers'][number], 'allowDefaultTenant' | 'scopes'>
export type JwtSettings = NonNullable<Auth['jwt']> & { readonly tenant: string }

export type OAuthSettings = Section<'oauth'>
export type OAuthProviderSettings = OAuthSettings['providers'][string]
/** Our client at one authorization server. */
export type OAuthClientSettings = Omit<OAuthProviderSettings, 'scopes' | 'alwaysScopes' | 'parameters'>
export type SignInSettings = NonNullable<OAuthSettings['signIn']>
export type ConsoleSignInSettings = NonNullable<Section<'console'>['signIn']>

/** Everything that the server needs, checked and with every default filled in. */
export interface Settings extends ProtocolSettings {
  readonly tools: readonly Tool[]
  /** Descriptions by toolkit name. */
  readonly toolkits: ReadonlyMap<string, string>
  readonly toolsets?: Toolsets
  /** Sources of imported tools by key; the store may have more. */
  readonly sources: ReadonlyMap<string, SourceOptions>
  /** Relative paths in the options of sources start here. */
  readonly folder: string
  /** Environment variables, for programs that sources start; each program gets only those that its options name. */
  readonly variables?: () => Readonly<Record<string, string | undefined>>
  /** `drainMs` has a default in the config; in settings made by code it is 0 unless it is set. */
  readonly server: WithOptional<Section<'server'>, 'drainMs'>
  /** `sqlite:PATH` (absolute), `postgres://…` or `memory:`. */
  readonly store: string
  /** True if the server creates and changes the tables of its store; otherwise `collet migrate` does. Default true. */
  readonly migrates?: boolean
  /** Folder for the key file and the start token, absolute. */
  readonly dataFolder: string
  /** `COLLET_KEY`, decoded to 32 bytes; `undefined` = the key file in `dataFolder`. */
  readonly masterKey: Uint8Array | undefined
  /** The previous key, while it is being changed. */
  readonly oldMasterKey?: Uint8Array | undefined
  readonly auth: {
    readonly apiKeys: readonly ApiKeySettings[]
    readonly jwt: JwtSettings | undefined
    readonly issuers?: readonly IssuerSettings[]
    readonly roles?: RoleTable
    /** True if callers need a credential even before any credential exists. */
    readonly required?: boolean
  }
  readonly oauth: OAuthSettings
  readonly console: Section<'console'>
  readonly calls: Section<'calls'>
  /** Absent = results are not shortened. */
  readonly results?: Section<'results'>
  readonly journal: Section<'journal'>
  readonly egress: Section<'egress'>
  readonly limits: LimitSettings
  readonly budgets: readonly BudgetRule[]
  readonly approvals: ApprovalRules
  /** Receivers of notices that need an operator's attention. Default none. */
  readonly webhooks?: readonly Webhook[]
  /** Conditions that are reported when they begin and when they end. Default none. */
  readonly alerts?: Section<'alerts'>
  readonly hooks: Hooks
  /** Default: searches learn, and there is no embedding model. */
  readonly search?: { readonly learn: boolean; readonly embed?: Embed | undefined }
  readonly logLevel: ParsedConfig['log']['level']
  /** Absent = JSON. */
  readonly logStyle?: { readonly format: ParsedConfig['log']['format']; readonly isColored: boolean }
  /** OTLP/HTTP endpoint for traces and metrics, e.g. `http://127.0.0.1:4318`; `undefined` = no export. */
  readonly otlpEndpoint: string | undefined
  readonly otlp?: OtlpSettings
  /** True if `/metrics` counts calls for each tenant. Default false. */
  readonly tenantLabel?: boolean
}
