import type { z } from 'zod'
import type { ApprovalPredicate } from '#core/approvals/approvals'
import type { JsonObject } from '#core/json'
import type { Hooks } from '#core/runtime'
import type { DefinedTool, InputOf } from '#core/tools/define'
import type { ProtocolConfigs } from '#protocols/list'
import type { SOURCE_OPTIONS } from '#sources/source-types'
import type { IssuerAlgorithm } from './settings.ts'

interface ApiKeyConfig {
  /** The key acts as the principal `key:<id>`. Entries may share an id while a key is being rotated. */
  readonly id: string
  /** At least 32 random bytes: `collet keys generate` makes one. */
  readonly key: string
  /** Default `default`. */
  readonly tenant?: string
  /** What the key may do. Absent = nothing beyond tools that ask for no scope. */
  readonly scopes?: readonly string[]
  /** Names in `auth.roles`, whose scopes the key holds too. */
  readonly roles?: readonly string[]
  /** Catalog ids, such as `openwop:Mail.Send`: the key sees these tools and no others. Absent = all its scopes open. */
  readonly tools?: readonly string[]
  /** ISO 8601 with a zone, such as `2027-01-31T00:00:00Z`: from then on the key is not valid. */
  readonly expiresAt?: string
  /** What the key is for, in your words. */
  readonly label?: string
}

/** A claim of a token: its name, or the path to it. */
type ClaimPath = string | readonly string[]

interface IssuerConfig {
  /** Exactly as in the `iss` of its tokens: https, or http on loopback. */
  readonly issuer: string
  /** What its tokens for this server have in `aud`. */
  readonly audience: string | readonly string[]
  /** Where its keys are, if it has no discovery document. */
  readonly jwksUri?: string
  readonly claims?: {
    /** Required of every token once it is set. Default: the tenant is `tenant`. */
    readonly tenant?: ClaimPath
    /** Default `scope`. */
    readonly scopes?: ClaimPath
    /** Default: tokens bring no roles. */
    readonly roles?: ClaimPath
  }
  /** Default `default`. */
  readonly tenant?: string
  /** Whether `claims.tenant` of a token may be `default`, the tenant of whoever looks after the server. Default `false`. */
  readonly allowDefaultTenant?: boolean
  /** Default: every one that is not symmetric. */
  readonly algorithms?: readonly IssuerAlgorithm[]
}

interface JwtConfig {
  /** Shared HS256 secret of at least 32 random bytes. */
  readonly secret: string
  /** Accepted `aud` values. */
  readonly audiences?: readonly string[]
  /** Longest accepted distance of `exp` from now. Default 900. */
  readonly maxLifetimeSeconds?: number
}

/** A client of one authorization server: where it is, who we are there. */
interface OAuthClientConfig {
  readonly clientId: string
  /** Absent for public clients. */
  readonly clientSecret?: string
  /** How the secret is sent to the token endpoint. Default `basic`, or `none` without a secret. */
  readonly clientAuth?: 'basic' | 'post' | 'none'
}

interface OAuthProviderConfig extends OAuthClientConfig {
  /** Endpoints are discovered there, unless they are given. */
  readonly issuer?: string
  readonly authorizationEndpoint?: string
  readonly tokenEndpoint?: string
  readonly revocationEndpoint?: string
  /** All that may be asked for; a tool that needs another scope is refused at the start. Default: any. */
  readonly scopes?: readonly string[]
  /** Asked for every time, such as `offline_access`. */
  readonly alwaysScopes?: readonly string[]
  /** More parameters of the authorization request, such as `access_type: 'offline'`. */
  readonly parameters?: { readonly [name: string]: string }
  /** Whom the tokens are for (RFC 8707), such as the URL of an MCP server; sent with every request for one. */
  readonly resource?: string
}

interface SignInConfig extends OAuthClientConfig {
  /** OpenID Connect issuer where users sign in. */
  readonly issuer: string
  /** Default `['openid']`. */
  readonly scopes?: readonly string[]
  /** The claim that is the user id of calls. Default `sub`. */
  readonly userClaim?: string
  /** Who may consent for a principal itself, by principal: user ids. */
  readonly owners?: { readonly [principal: string]: readonly string[] }
}

/** What a yes takes. */
interface ApprovalTermsConfig {
  /** How long a question stays open. Default 1 800 000, half an hour. */
  readonly expiresAfterMs?: number
  /** How many distinct approvers must say yes. Default 1. */
  readonly quorum?: number
  /** What approvers must hold besides `approvals:respond`. Default nothing more. */
  readonly requiredScope?: string
  /** Let a caller approve its own call. Default false. */
  readonly selfApproval?: boolean
  /** Let one override, with the scope `approvals:override` and a reason, be enough whatever the quorum. Default false. */
  readonly overrideBypassesQuorum?: boolean
}

/** What a yes takes for one tool, and when it is needed. */
interface ToolApprovalConfig<Input = JsonObject> extends ApprovalTermsConfig {
  /** As `approvals.when`, instead of it; only for a tool with `policy.approval: 'conditional'`. Not in a JSON config. */
  readonly when?: ApprovalPredicate<Input>
}

type ToolEntry = DefinedTool | string

/** The input of the tools with this id, or of all versions with this name; JSON for what the config only names. */
type InputNamed<Entry, Name> = [SchemaNamed<Entry, Name>] extends [never]
  ? JsonObject
  : InputOf<SchemaNamed<Entry, Name>>

type SchemaNamed<Entry, Name> = Entry extends { readonly id: infer Id; readonly input: infer Schema }
  ? string extends Id
    ? never
    : Name extends Id | BaseOf<Id>
      ? Schema
      : never
  : never

type BaseOf<Id> = Id extends `${infer Base}@${string}` ? Base : never

interface ApprovalsConfig<
  Tools extends readonly ToolEntry[] = readonly ToolEntry[],
  Names extends string = string,
> extends ApprovalTermsConfig {
  /**
   * For tools with `policy.approval: 'conditional'`: only `false` lets a call run without a yes. Without it, and when
   * it throws, they always need one; reading a member that a call does not have throws. Not in a JSON config.
   */
  readonly when?: ApprovalPredicate
  /** By `Toolkit.Name` or `Toolkit.Name@x.y.z`. */
  readonly perTool?: { readonly [Name in Names]: ToolApprovalConfig<InputNamed<Tools[number], Name>> }
  /** Told of every new question; messages are signed with the secret. */
  readonly webhooks?: readonly {
    readonly url: string
    readonly secret: string
    /** Whom the one-time link in the message is for. Absent = no link. */
    readonly approver?: string
  }[]
  /** How many calls of one principal may wait. Default 100. */
  readonly mostParkedPerPrincipal?: number
}

/** Everything `collet.config.{ts,js,mjs,json}` may say. All keys are optional. */
export interface ColletConfig<
  Tools extends readonly ToolEntry[] = readonly ToolEntry[],
  Names extends string = string,
> extends ProtocolConfigs {
  /**
   * Tools made by `tool()`, and paths or globs (relative to the config file) of files that export some. They are
   * listed in this order; the files of one glob, and the exports of one file, by name.
   */
  readonly tools?: Tools
  readonly toolkits?: { readonly [name: string]: { readonly description: string } }
  /** Where further tools come from. The key is the toolkit of the tools: `<key>.<name>`. */
  readonly sources?: { readonly [key: string]: z.input<typeof SOURCE_OPTIONS> }
  readonly server?: {
    /** Default `127.0.0.1`. Any other than loopback needs `auth`. */
    readonly host?: string
    /** Default 4100; 0 = any free port. */
    readonly port?: number
    /** Absolute URL under which callers reach the server; default the bound address. */
    readonly publicUrl?: string
    /** Default 1 MiB. */
    readonly bodyLimitBytes?: number
    /** Origins of web pages that may call the server. Default none. */
    readonly allowedOrigins?: readonly string[]
    /** Serve `/metrics` on this port too, where it needs no credential. Default none. */
    readonly metricsPort?: number
    /** Address of that listener. Default `127.0.0.1`. */
    readonly metricsHost?: string
    /** Open connections; further ones are closed at once. Default 10 000. */
    readonly maxConnections?: number
  }
  /** `sqlite:PATH` (relative to the config file) or `memory:`. Default `sqlite:.collet/collet.db`. */
  readonly store?: string
  /** Absent = no credential is needed, and the server listens on loopback only. */
  readonly auth?: {
    readonly apiKeys?: readonly ApiKeyConfig[]
    readonly jwt?: JwtConfig
    /** OpenID Connect issuers whose access tokens are taken. */
    readonly issuers?: readonly IssuerConfig[]
    /** Scopes by role. A role that is not here grants nothing. */
    readonly roles?: { readonly [role: string]: readonly string[] }
    /** Refuse callers without a credential, also before `collet keys create` made the first key. Default false. */
    readonly required?: boolean
  }
  /** Authorization servers whose tokens this server keeps for its callers. */
  readonly oauth?: {
    /** By the id that tools name in `requirements.authorization`. */
    readonly providers?: { readonly [id: string]: OAuthProviderConfig }
    /** How users prove who they are before they consent. Without it consent works on loopback only. */
    readonly signIn?: SignInConfig
    /** Let whoever has the link consent, without a sign-in and beyond loopback. Default false. */
    readonly allowUnboundConsent?: boolean
  }
  readonly calls?: {
    /** How long results are kept. Default 24. */
    readonly retentionHours?: number
    /** For tools that set no `timeoutMs`. Default 60 000. */
    readonly defaultTimeoutMs?: number
    /** Default 1 MiB. */
    readonly maxResultBytes?: number
  }
  readonly journal?: {
    /** How long the journal and the keys of calls are kept. Default 90. */
    readonly retentionDays?: number
  }
  /** What tools may reach with `ctx.fetch`: the internet, and of this machine and its networks what is allowed here. */
  readonly egress?: {
    /** Local upstreams: `host`, `host:port`, `[v6]:port` or a range such as `10.1.0.0/16`. Default none. */
    readonly allow?: readonly string[]
    /** Default 10 MiB. */
    readonly maxResponseBytes?: number
    /** For a whole exchange, redirects and body included. Default 30 000. */
    readonly timeoutMs?: number
    /** Default 5. */
    readonly maxRedirects?: number
  }
  /** Rates and numbers of new runs. Default: at most 1 000 at once, and nothing while the server is overloaded. */
  readonly limits?: LimitsConfig
  /** What principals and tenants may spend, across restarts. Default no budget. */
  readonly budgets?: readonly BudgetConfig[]
  readonly approvals?: ApprovalsConfig<Tools, Names>
  /** Older versions that may be served although a newer one is stricter about approval, scopes or tier. */
  readonly acknowledgeLaxerVersions?: readonly string[]
  readonly authoring?: {
    /** Whether every parameter needs a description. Default true. */
    readonly describeParameters?: boolean
  }
  /** The operator's own checks; not in a JSON config. */
  readonly hooks?: Hooks
  readonly log?: {
    /** Default `info`. */
    readonly level?: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  }
  readonly telemetry?: {
    /** OTLP/HTTP endpoint for traces, for example `http://127.0.0.1:4318`. Default none. */
    readonly otlpEndpoint?: string
  }
}

/** Gives the config back unchanged; it is there for the types: `approvals.perTool` knows the inputs of `tools`. */
export function defineConfig<const Tools extends readonly ToolEntry[], Names extends string>(
  config: ColletConfig<Tools, Names>,
): ColletConfig<Tools, Names> {
  return config
}

/** What is left out is not limited. */
interface CallLimitConfig {
  /** New runs per minute; fractions are fine. */
  readonly callsPerMinute?: number
  /** How many may come at once before the rate counts. Default a tenth of `callsPerMinute`, at least 1. */
  readonly burst?: number
  /** Runs at once; one that was ended but has not settled counts too. */
  readonly concurrent?: number
}

interface ToolLimitConfig extends CallLimitConfig {
  /** The same for each principal with the tool. */
  readonly perPrincipal?: CallLimitConfig
}

/** Limits on new runs; replays of recorded calls are never limited. */
interface LimitsConfig {
  /** For each principal, over all its calls. */
  readonly perPrincipal?: CallLimitConfig
  /** For each tool, over all principals and all its versions. */
  readonly perTool?: ToolLimitConfig
  /** By principal id, such as `key:alice`: what is said here counts instead of `perPrincipal`. */
  readonly byPrincipal?: { readonly [principal: string]: CallLimitConfig }
  /** By any name of a tool without a version, such as `Mail.Send` or `mcp:github.create_issue`: what is said here counts instead of `perTool`. */
  readonly byTool?: { readonly [tool: string]: ToolLimitConfig }
  /** For the whole server. */
  readonly total?: {
    readonly callsPerMinute?: number
    readonly burst?: number
    /** Default 1 000. */
    readonly concurrent?: number
    /** Changes that wait to be written before new calls are refused. Default 5 000. */
    readonly pendingWrites?: number
    /** How late the event loop may be, for more than a moment, before new calls are refused. Default 500. */
    readonly delayMs?: number
    /** Bytes of request bodies held at once. Default 64 MiB. */
    readonly bodyBytes?: number
  }
  /** Requests that are held open: streams and polls of runs, and `Prefer: wait`. */
  readonly waiting?: {
    /** Of each principal. Default 100. */
    readonly perPrincipal?: number
    /** Default 1 000. */
    readonly total?: number
    /** The longest that a poll or `Prefer: wait` waits, at most 60. Default 60. */
    readonly longestSeconds?: number
  }
}

/** What somebody may spend in each window; at least one of `calls`, `seconds` and `cost`. */
interface BudgetConfig {
  /** Each principal, or each tenant as a whole. */
  readonly for: 'principal' | 'tenant'
  /** Only these: ids of principals, or names of tenants. */
  readonly of?: readonly string[]
  /** `15m`, `1h`, `1d` …: whole multiples since 1970, in UTC. */
  readonly window: string
  readonly calls?: number
  /** Run time. A call's `timeoutMs` is set aside while it runs. */
  readonly seconds?: number
  /** Cost units: the sum of the tools' `policy.cost`. */
  readonly cost?: number
}
