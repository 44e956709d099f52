import { z } from 'zod'
import {
  type ApprovalPredicate,
  type ApprovalRules,
  DEFAULT_APPROVAL_RULES,
} from '#kernel/approval/approvals'
import { defined } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import { NO_LIMIT } from '#stages/limits/budgets'

/**
 * The parts of the config schema about approvals, limits and budgets, and `closed`, which creates the object schema of every section.
 * `schema.ts` includes them.
 * Invariant: an unknown key is an error that suggests the right one.
 */

const TEXT = z.string().min(1)
/** Hosts to which plain http stays on this machine. */
export const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** A URL that stays as written, because issuers are compared as text (OIDC Discovery §4.3). Plain http is allowed only to this machine. */
export function privateUrl(error: string, { mayHaveQuery }: { readonly mayHaveQuery: boolean }) {
  const isPrivate = (text: string): boolean => {
    const url = URL.parse(text)
    if (url === null || url.hash !== '' || url.username !== '' || url.password !== '') return false
    if (url.search !== '' && !mayHaveQuery) return false
    return url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.test(url.hostname))
  }
  return TEXT.refine(isPrivate, { error })
}

/** 30 days. */
const MAX_EXPIRY_MS = 30 * 24 * 3_600_000

export function approvalTerms(scope: z.ZodType<string, string>) {
  const terms = {
    /** How long a request for approval stays open. Default 1 800 000, half an hour. */
    expiresAfterMs: z.int().min(1_000).max(MAX_EXPIRY_MS).optional(),
    /** How many distinct approvers must approve. Default 1. */
    quorum: z.int().min(1).max(100).optional(),
    /** Scope that approvers need besides `approvals:respond`. Default none. */
    requiredScope: scope.optional(),
    /** Let a caller approve its own call. Default false. */
    selfApproval: z.boolean().optional(),
    /** Let one override, with the scope `approvals:override` and a reason, replace the quorum. Default false. */
    overrideBypassesQuorum: z.boolean().optional(),
  }
  const when = optionalFunction<ApprovalPredicate>()
  return {
    ...terms,
    when,
    perTool: z.record(z.string().min(1), closed({ ...terms, when })).default({}),
    /** How many calls of one principal may wait for approval. Default 100. */
    maxParkedPerPrincipal: z.int().min(1).default(DEFAULT_APPROVAL_RULES.maxParkedPerPrincipal),
  }
}

/** An optional function. Its parameters cannot be checked; their types are those of the config. */
export function optionalFunction<Type>() {
  return z.custom<Type>((value) => typeof value === 'function', { error: 'expected a function.' }).optional()
}

export function toApprovalRules(
  parsed: z.output<z.ZodObject<ReturnType<typeof approvalTerms>>>,
): ApprovalRules {
  const { when, perTool, maxParkedPerPrincipal, ...terms } = parsed
  const own = Object.entries(perTool)
  return {
    ...DEFAULT_APPROVAL_RULES,
    ...defined(terms),
    when,
    whenPerTool: new Map(
      own.flatMap(([tool, rules]) => (rules.when === undefined ? [] : [[tool, rules.when]])),
    ),
    perTool: new Map(own.map(([tool, { when: _when, ...rules }]) => [tool, defined(rules)])),
    maxParkedPerPrincipal,
  }
}

const MINUTE_MS = 60_000
const WINDOW_UNITS: Readonly<Record<string, number>> = {
  m: MINUTE_MS,
  h: 60 * MINUTE_MS,
  d: 1_440 * MINUTE_MS,
}
const MAX_WINDOW_MS = 31 * 1_440 * MINUTE_MS
const MIB = 1_024 * 1_024
/** The longest poll that OWP-98 allows. */
const MAX_WAIT_S = 60
/** Small enough for sums of thousandths to stay exact. */
const MAX_AMOUNT = 1_000_000_000

const COUNT = z.int().min(1).max(MAX_AMOUNT)
const AMOUNT = z
  .number()
  .max(MAX_AMOUNT)
  .refine((value) => value > 0, { error: 'must be more than 0.' })

const RATE = {
  /** New runs per minute; fractions are fine. */
  callsPerMinute: AMOUNT.optional(),
  /** How many runs may start at once before the rate applies. Default a tenth of `callsPerMinute`, at least 1. */
  burst: COUNT.optional(),
}
const LIMIT = {
  ...RATE,
  /** Concurrent runs. A run that timed out or was cancelled counts until its tool has returned. */
  concurrent: COUNT.optional(),
}

const BURST_ALONE = {
  path: ['burst'],
  error: 'limits how many runs may start at once, so it needs "callsPerMinute" next to it.',
}

function hasRateForBurst({ callsPerMinute, burst }: z.output<z.ZodObject<typeof RATE>>): boolean {
  return burst === undefined || callsPerMinute !== undefined
}

const CALL_LIMIT = closed(LIMIT).refine(hasRateForBurst, BURST_ALONE)
const TOOL_LIMIT = closed({
  ...LIMIT,
  /** For each principal that uses the tool. */
  perPrincipal: CALL_LIMIT.prefault({}),
}).refine(hasRateForBurst, BURST_ALONE)

const PRINCIPAL = /^(key:.+|jwt:.+|anonymous)$/s
const NO_PRINCIPAL = 'is not a principal id: write "key:<id>", "jwt:<issuer>#<sub>" or "anonymous".'

export const LIMITS = closed({
  /** For each principal, over all its calls. */
  perPrincipal: CALL_LIMIT.prefault({}),
  /** For each tool, over all principals and all its versions. */
  perTool: TOOL_LIMIT.prefault({}),
  /** By principal id, for example `key:alice`: overrides `perPrincipal`. */
  byPrincipal: z.record(z.string(), CALL_LIMIT).default({}),
  /** By any name of a tool without a version, for example `Mail.Send` or `mcp:github.create_issue`: overrides `perTool`. */
  byTool: z.record(z.string(), TOOL_LIMIT).default({}),
  /** For the whole server. */
  total: closed({
    ...RATE,
    /** Default 1 000. */
    concurrent: COUNT.default(1_000),
    /** Changes that wait to be written before new calls are refused. Default 5 000. */
    pendingWrites: COUNT.default(5_000),
    /** How long the event loop may lag before new calls are refused; a short peak does not count. Default 500. */
    delayMs: COUNT.default(500),
    /** Bytes of request bodies in memory at once. Default 64 MiB. */
    bodyBytes: COUNT.default(64 * MIB),
  })
    .refine(hasRateForBurst, BURST_ALONE)
    .prefault({}),
  /** Requests that stay open: streams and polls of runs, and `Prefer: wait`. */
  waiting: closed({
    /** Open requests of each principal. Default 100. */
    perPrincipal: COUNT.default(100),
    /** Default 1 000. */
    total: COUNT.default(1_000),
    /** The longest wait of a poll or `Prefer: wait`, at most 60. Default 60. */
    longestSeconds: z.int().min(1).max(MAX_WAIT_S).default(MAX_WAIT_S),
  }).prefault({}),
})
  .superRefine(({ byPrincipal }, context) => {
    for (const id of Object.keys(byPrincipal)) {
      if (!PRINCIPAL.test(id))
        context.addIssue({ code: 'custom', path: ['byPrincipal', id], message: NO_PRINCIPAL })
    }
  })
  .prefault({})

/** A length of time in minutes, hours or days, in milliseconds. */
export const WINDOW = z.string().transform((text, context) => {
  const [, count = '', unit = ''] = /^([1-9]\d{0,4})([mhd])$/.exec(text) ?? []
  const windowMs = Number(count) * (WINDOW_UNITS[unit] ?? 0)
  if (windowMs > 0 && windowMs <= MAX_WINDOW_MS) return windowMs
  context.addIssue('expected minutes, hours or days, such as "15m", "1h" or "1d", and at most "31d".')
  return z.NEVER
})

const BUDGET = closed({
  /** Whether the budget is for each principal, or for each tenant as a whole. */
  for: z.enum(['principal', 'tenant']),
  /** Only these principal ids or tenant names. */
  of: z.array(z.string().min(1)).optional(),
  /** The length of the budget's window: `15m`, `1h`, `1d` … Windows begin at whole multiples since 1970, in UTC. */
  window: WINDOW,
  calls: COUNT.optional(),
  /** Run time. A call reserves its `timeoutMs` while it runs. */
  seconds: AMOUNT.optional(),
  /** Cost units: the sum of the tools' `policy.cost`. */
  cost: AMOUNT.optional(),
})
  .superRefine((budget, context) => {
    const { calls, seconds, cost, of = [] } = budget
    if (calls === undefined && seconds === undefined && cost === undefined) {
      context.addIssue('limits nothing: write "calls", "seconds" or "cost".')
    }
    for (const [index, id] of of.entries()) {
      if (budget.for === 'principal' && !PRINCIPAL.test(id))
        context.addIssue({ code: 'custom', path: ['of', index], message: NO_PRINCIPAL })
    }
  })
  .transform(({ of, window, calls, seconds, cost, ...budget }) => ({
    ...budget,
    of: of === undefined ? undefined : new Set(of),
    windowMs: window,
    limit: {
      calls: calls ?? NO_LIMIT,
      milliseconds: seconds === undefined ? NO_LIMIT : Math.floor(seconds * 1_000),
      cost: cost === undefined ? NO_LIMIT : Math.floor(cost * 1_000),
    },
  }))

export const BUDGETS = z.array(BUDGET).default([])

/** Separates the messages about unknown keys of one object, which zod reports as one issue. */
export const LINE = '\n'

/** Keys that are often written at the top level, with their full path. */
const PATH_OF_KEY: ReadonlyMap<string, string> = new Map(
  [
    ...['host', 'port', 'publicUrl', 'bodyLimitBytes', 'allowedOrigins', 'maxConnections', 'metricsPort'].map(
      (key) => `server.${key}`,
    ),
    ...['apiKeys', 'jwt', 'issuers', 'roles'].map((key) => `auth.${key}`),
    ...['retentionHours', 'defaultTimeoutMs', 'maxResultBytes'].map((key) => `calls.${key}`),
    'journal.retentionDays',
    ...['allow', 'maxResponseBytes', 'maxRedirects'].map((key) => `egress.${key}`),
    ...['stringIdsAreKeys', 'streaming'].map((key) => `opentool.${key}`),
    ...['instructions', 'pageSize'].map((key) => `mcp.${key}`),
    ...['perPrincipal', 'perTool', 'byPrincipal', 'byTool'].map((key) => `limits.${key}`),
    ...['providers', 'signIn', 'allowUnboundConsent'].map((key) => `oauth.${key}`),
    ...['otlpEndpoint', 'tenantLabel', 'metricsIntervalMs'].map((key) => `telemetry.${key}`),
  ].map((path) => [path.slice(path.indexOf('.') + 1), path]),
)

/** An object that refuses unknown keys and suggests known ones. */
export function closed<Shape extends z.ZodRawShape>(shape: Shape) {
  const known = Object.keys(shape)
  return z.strictObject(shape, {
    error: (issue) => (issue.code === 'unrecognized_keys' ? unknownKeys(issue.keys, known) : undefined),
  })
}

function unknownKeys(keys: readonly string[], known: readonly string[]): string {
  return keys
    .map((key) => {
      const path = PATH_OF_KEY.get(key)
      const suggestion = path === undefined ? didYouMean(key, known) : ` Did you mean "${path}"?`
      return `unknown key "${key}".${suggestion === '' ? ` Known here: ${known.join(', ')}.` : suggestion}`
    })
    .join(LINE)
}
