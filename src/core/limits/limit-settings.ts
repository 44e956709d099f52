/** How fast tokens come back, and how many can be saved up. */
export interface TokenRate {
  readonly perMs: number
  /** At least 1. */
  readonly burst: number
}

/** What is `undefined` is not limited. */
export interface CallLimit {
  readonly rate: TokenRate | undefined
  /** Runs at once. A run that was ended but has not settled counts (rule 10). */
  readonly concurrent: number | undefined
}

export interface ToolLimit extends CallLimit {
  /** The same for each principal with the tool (OWP-56). */
  readonly perPrincipal: CallLimit
}

/** Where a server stops taking new calls, whoever makes them. */
export interface TotalLimit extends CallLimit {
  /** Changes that wait for their commit. */
  readonly pendingWrites: number | undefined
  /** How late the event loop may be, again and again. */
  readonly delayMs: number | undefined
  /** Bytes of request bodies held at once. */
  readonly bodyBytes: number | undefined
}

/** Requests that are held open: readers of runs, and callers that wait for a decision. */
export interface WaitLimit {
  readonly perPrincipal: number | undefined
  readonly total: number | undefined
  /** The longest that one may ask to wait. */
  readonly longestMs: number | undefined
}

/** Limits on new runs. A replay is never limited (rule 1). */
export interface LimitSettings {
  readonly perPrincipal: CallLimit
  /** By principal id, complete: they count instead of `perPrincipal`. */
  readonly byPrincipal: ReadonlyMap<string, CallLimit>
  readonly perTool: ToolLimit
  /** By any name of a tool without a version, complete: they count instead of `perTool`. */
  readonly byTool: ReadonlyMap<string, ToolLimit>
  readonly total: TotalLimit
  readonly waiting: WaitLimit
}

export const UNLIMITED: CallLimit = { rate: undefined, concurrent: undefined }

export const NO_LIMITS: LimitSettings = {
  perPrincipal: UNLIMITED,
  byPrincipal: new Map(),
  perTool: { ...UNLIMITED, perPrincipal: UNLIMITED },
  byTool: new Map(),
  total: { ...UNLIMITED, pendingWrites: undefined, delayMs: undefined, bodyBytes: undefined },
  waiting: { perPrincipal: undefined, total: undefined, longestMs: undefined },
}

/** Whether calls of one tool can be limited while other tools go on (OWP-56). */
export function hasToolRates({ perTool, byTool }: LimitSettings): boolean {
  return [perTool, ...byTool.values()].some(
    ({ rate, perPrincipal }) => rate !== undefined || perPrincipal.rate !== undefined,
  )
}
