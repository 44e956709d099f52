import type { ApprovalRules } from '#core/approvals/approval-rules'
import type { Hooks } from '#core/ports/hooks'
import type { Secret } from '#core/secret'
import type { Tool } from '#core/tool'

export interface ApiKeySettings {
  /** Principal `key:<id>`. Several entries may share an id: a rotated key of the same principal. */
  readonly id: string
  readonly key: Secret
  readonly tenant: string
  readonly scopes: readonly string[]
}

export interface JwtSettings {
  readonly secret: Secret
  /** Accepted `aud` values; empty = a token that has an `aud` is refused (OTC-109). */
  readonly audiences: readonly string[]
  readonly maxLifetimeSeconds: number
  readonly tenant: string
}

/** Everything the server needs, checked and with every default filled in. Nothing below this reads a file or the environment. */
export interface Settings {
  readonly tools: readonly Tool[]
  /** Descriptions by toolkit name. */
  readonly toolkits: ReadonlyMap<string, string>
  readonly server: {
    readonly host: string
    readonly port: number
    /** Absolute URL without a trailing slash; `undefined` = the bound address. */
    readonly publicUrl: string | undefined
    readonly bodyLimitBytes: number
    /** Further `Origin` values that may call us (no CORS otherwise). */
    readonly allowedOrigins: readonly string[]
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
  }
  readonly calls: {
    readonly retentionHours: number
    readonly defaultTimeoutMs: number
    readonly maxResultBytes: number
  }
  readonly journal: { readonly retentionDays: number }
  readonly openwop: {
    /** `/v1/tools`; off = 404 there (OWP-06). */
    readonly catalog: boolean
    /** `?view=compact`; off = any unknown view (OWP-26). */
    readonly compactView: boolean
    /** `/v1/sessions`; off = 404 there. */
    readonly sessions: boolean
  }
  readonly otc: {
    /** Refuse request members that no published shape has (T-23). */
    readonly strictRequests: boolean
    /** Keep `developer_message` off the wire (T-20). */
    readonly hideDeveloperMessages: boolean
    /** Leave one key out of lists that would carry both (T-31). */
    readonly omitListKey: 'tools' | 'items' | undefined
  }
  readonly opentool: {
    /** Title of the document of our tools (OTS-03). */
    readonly title: string
    /** Its version, which `/opentool/version` answers too (OTS-32); `undefined` = the version of this package. */
    readonly version: string | undefined
    readonly description: string | undefined
    /** A string `id` is the key of a call without `Idempotency-Key` (rule 4). */
    readonly stringIdsAreKeys: boolean
    /** Serve `/opentool/streamCall` (OTS-50). */
    readonly streaming: boolean
  }
  readonly approvals: ApprovalRules
  readonly hooks: Hooks
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  /** OTLP/HTTP endpoint for traces, e.g. `http://127.0.0.1:4318`; `undefined` = no export. */
  readonly otlpEndpoint: string | undefined
}
