import type { ApprovalFacts } from '#core/approvals/approval-rules'
import type { DefinedTool } from '#core/define-tool'
import type { Hooks } from '#core/ports/hooks'

export interface ApiKeyConfig {
  /** The key acts as the principal `key:<id>`. Entries may share an id while a key is being rotated. */
  readonly id: string
  /** At least 32 random bytes: `collet keys generate` makes one. */
  readonly key: string
  /** Default `default`. */
  readonly tenant?: string
  /** What the key may do. Absent = nothing beyond tools that ask for no scope. */
  readonly scopes?: readonly string[]
}

export interface JwtConfig {
  /** Shared HS256 secret of at least 32 random bytes. */
  readonly secret: string
  /** Accepted `aud` values. */
  readonly audiences?: readonly string[]
  /** Longest accepted distance of `exp` from now. Default 900. */
  readonly maxLifetimeSeconds?: number
}

/** What a yes takes. */
export interface ApprovalTermsConfig {
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

export interface ApprovalsConfig extends ApprovalTermsConfig {
  /**
   * For tools with `policy.approval: 'conditional'`: only `false` lets a call run without a yes. Without it, and when
   * it throws, they always need one. Not in a JSON config.
   */
  readonly when?: (facts: ApprovalFacts) => boolean | Promise<boolean>
  /** By `Toolkit.Name` or `Toolkit.Name@x.y.z`. */
  readonly perTool?: { readonly [tool: string]: ApprovalTermsConfig }
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
export interface ColletConfig {
  /**
   * Tools made by `tool()`, and paths or globs (relative to the config file) of files that export some. They are
   * listed in this order; the files of one glob, and the exports of one file, by name.
   */
  readonly tools?: readonly (DefinedTool | string)[]
  readonly toolkits?: { readonly [name: string]: { readonly description: string } }
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
  }
  /** `sqlite:PATH` (relative to the config file) or `memory:`. Default `sqlite:.collet/collet.db`. */
  readonly store?: string
  /** Absent = no credential is needed, and the server listens on loopback only. */
  readonly auth?: {
    readonly apiKeys?: readonly ApiKeyConfig[]
    readonly jwt?: JwtConfig
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
  readonly openwop?: {
    /** Serve and advertise the tool catalog, `/v1/tools`. Default true. */
    readonly catalog?: boolean
    /** Serve and advertise `?view=compact` of it. Default true. */
    readonly compactView?: boolean
    /** Serve and advertise sessions of stateful tools, `/v1/sessions`; needs the catalog. Default true. */
    readonly sessions?: boolean
  }
  readonly otc?: {
    /** Refuse request members that no published shape has. Default false. */
    readonly strictRequests?: boolean
    /** Keep `developer_message` off the wire. Default false. */
    readonly hideDeveloperMessages?: boolean
    /** Leave `tools` or `items` out of lists that would carry both. Default neither. */
    readonly omitListKey?: 'tools' | 'items'
  }
  readonly opentool?: {
    /** Title of the document that `/opentool/load` serves. Default `Collet`. */
    readonly title?: string
    /** Version of that document, and what `/opentool/version` answers. Default the version of this package. */
    readonly version?: string
    readonly description?: string
    /** Take a string `id` for the idempotency key of a call that has no `Idempotency-Key` header. Default false. */
    readonly stringIdsAreKeys?: boolean
    /** Serve `/opentool/streamCall` too. Default false. */
    readonly streaming?: boolean
  }
  readonly approvals?: ApprovalsConfig
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

/** Gives the config back unchanged; it is there for the types. */
export function defineConfig(config: ColletConfig): ColletConfig {
  return config
}
