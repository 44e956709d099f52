/** What is left out is not limited. */
export interface CallLimitConfig {
  /** New runs per minute; fractions are fine. */
  readonly callsPerMinute?: number
  /** How many may come at once before the rate counts. Default a tenth of `callsPerMinute`, at least 1. */
  readonly burst?: number
  /** Runs at once; one that was ended but has not settled counts too. */
  readonly concurrent?: number
}

export interface ToolLimitConfig extends CallLimitConfig {
  /** The same for each principal with the tool. */
  readonly perPrincipal?: CallLimitConfig
}

/** Limits on new runs; replays of recorded calls are never limited. */
export interface LimitsConfig {
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
export interface BudgetConfig {
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
