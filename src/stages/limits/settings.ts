import { fault, type LimitScope, type RefusalCode, type ToolError } from '#kernel/base/errors'

/**
 * The limits that an operator sets, and each limit's answer if it refuses a call. The config reader makes the settings;
 * `limits.ts`, `budgets.ts` and the HTTP server refuse with them.
 * Limits apply to new runs; a replay is never limited (rule 1).
 */

/** Refill rate of a token bucket, and its size. */
export interface TokenRate {
  readonly perMs: number
  /** At least 1. */
  readonly burst: number
}

/** Limits for calls; `undefined` members are not limited. */
export interface CallLimit {
  readonly rate: TokenRate | undefined
  /** Concurrent runs. A run that was ended but has not settled counts (rule 10). */
  readonly concurrent: number | undefined
}

export interface ToolLimit extends CallLimit {
  /** Limit for each principal's calls of the tool (OWP-56). */
  readonly perPrincipal: CallLimit
}

/** Limits for all callers of a server together. */
interface TotalLimit extends CallLimit {
  /** Maximum number of changes that wait for their commit. */
  readonly pendingWrites: number | undefined
  /** How late the event loop may repeatedly be. */
  readonly delayMs: number | undefined
  /** Maximum bytes of request bodies in memory at once. */
  readonly bodyBytes: number | undefined
}

/** Requests that are held open: readers of runs, and callers that wait for a decision. */
export interface WaitLimit {
  readonly perPrincipal: number | undefined
  readonly total: number | undefined
  /** The longest wait that a request gets. */
  readonly maxMs: number | undefined
}

export interface LimitSettings {
  readonly perPrincipal: CallLimit
  /** Limits by principal id; an entry replaces `perPrincipal` completely. */
  readonly byPrincipal: ReadonlyMap<string, CallLimit>
  readonly perTool: ToolLimit
  /** Limits by any name of a tool without a version; an entry replaces `perTool` completely. */
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
  waiting: { perPrincipal: undefined, total: undefined, maxMs: undefined },
}

/** Whether calls of one tool can be limited while other tools are not (OWP-56). */
export function hasToolRates({ perTool, byTool }: LimitSettings): boolean {
  return [perTool, ...byTool.values()].some(
    ({ rate, perPrincipal }) => rate !== undefined || perPrincipal.rate !== undefined,
  )
}

interface LimitAnswer {
  readonly code: Extract<RefusalCode, 'rate_limited' | 'budget_exceeded' | 'overloaded'>
  /** The scope as openwop names it (C6). */
  readonly scope: LimitScope
  readonly message: string
}

const NOTHING_RAN = 'Nothing was run; try again later.'

function rateLimited(scope: LimitScope, why: string, advice = NOTHING_RAN): LimitAnswer {
  return { code: 'rate_limited', scope, message: `${why} ${advice}` }
}

function overloaded(why: string, advice = NOTHING_RAN): LimitAnswer {
  return { code: 'overloaded', scope: 'global', message: `${why} ${advice}` }
}

function overBudget(scope: LimitScope, whose: string): LimitAnswer {
  const message = `${whose} budget does not cover this call. Nothing was run; it is renewed with the next window.`
  return { code: 'budget_exceeded', scope, message }
}

/** Every limit: its answer, and its label in the metrics. */
const LIMITS = {
  principal_rate: rateLimited('key', 'You make calls faster than this server allows.'),
  tool_rate: rateLimited('tool', 'This tool is called more often than this server allows.'),
  total_rate: rateLimited('global', 'The server gets more calls than it can take.'),
  principal_concurrency: rateLimited('key', 'You have as many calls running as this server allows.'),
  tool_concurrency: rateLimited('tool', 'As many calls of this tool are running as this server allows.'),
  total_concurrency: overloaded('The server runs as many calls as it can.'),
  principal_budget: overBudget('key', 'Your'),
  tenant_budget: overBudget('tenant', "Your tenant's"),
  delay: overloaded('The server is overloaded.'),
  pending_writes: overloaded('The server cannot write as fast as calls arrive.'),
  principal_waiting: rateLimited(
    'key',
    'You hold as many streams and waiting requests open as this server allows.',
    'Close some, or try again later.',
  ),
  total_waiting: overloaded(
    'The server holds as many streams and waiting requests open as it can.',
    'Try again later.',
  ),
  principal_bodies: rateLimited('key', 'You send more request bodies at once than this server allows.'),
  tenant_bodies: rateLimited(
    'tenant',
    'Your tenant sends more request bodies at once than this server allows.',
  ),
  body_bytes: overloaded('The server holds as many request bodies as it can.'),
} as const satisfies Record<string, LimitAnswer>

export type LimitName = keyof typeof LIMITS

export function limitRefusal(name: LimitName, retryAfterMs: number): ToolError {
  const { code, scope, message } = LIMITS[name]
  return fault(code, message, { retryAfterMs: Math.max(1, Math.ceil(retryAfterMs)), scope })
}
