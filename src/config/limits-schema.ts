import { z } from 'zod'
import { NO_LIMIT } from '#core/limits/budgets'
import { closed } from './closed-object.ts'

const MINUTE_MS = 60_000
const WINDOW_UNITS: Readonly<Record<string, number>> = {
  m: MINUTE_MS,
  h: 60 * MINUTE_MS,
  d: 1_440 * MINUTE_MS,
}
const LONGEST_WINDOW_MS = 31 * 1_440 * MINUTE_MS
const MIB = 1_024 * 1_024
/** OWP-98 knows no longer poll. */
const LONGEST_WAIT_S = 60
/** So that sums of thousandths stay exact. */
const MOST = 1_000_000_000

const COUNT = z.int().min(1).max(MOST)
const AMOUNT = z
  .number()
  .max(MOST)
  .refine((value) => value > 0, { error: 'must be more than 0.' })

const RATE = { callsPerMinute: AMOUNT.optional(), burst: COUNT.optional() }
const LIMIT = { ...RATE, concurrent: COUNT.optional() }

interface WrittenRate {
  readonly callsPerMinute?: number | undefined
  readonly burst?: number | undefined
}

const BURST_ALONE = {
  path: ['burst'],
  error: 'says how many may come at once; it needs "callsPerMinute" beside it.',
}

function hasRateForBurst({ callsPerMinute, burst }: WrittenRate): boolean {
  return burst === undefined || callsPerMinute !== undefined
}

const CALL_LIMIT = closed(LIMIT).refine(hasRateForBurst, BURST_ALONE)
const TOOL_LIMIT = closed({ ...LIMIT, perPrincipal: CALL_LIMIT.prefault({}) }).refine(
  hasRateForBurst,
  BURST_ALONE,
)

const PRINCIPAL = /^(key:.+|jwt:.+|anonymous)$/s
const NO_PRINCIPAL = 'is no principal id: write "key:<id>", "jwt:<issuer>#<sub>" or "anonymous".'

export const LIMITS = closed({
  perPrincipal: CALL_LIMIT.prefault({}),
  perTool: TOOL_LIMIT.prefault({}),
  byPrincipal: z.record(z.string(), CALL_LIMIT).default({}),
  byTool: z.record(z.string(), TOOL_LIMIT).default({}),
  total: closed({
    ...RATE,
    concurrent: COUNT.default(1_000),
    pendingWrites: COUNT.default(5_000),
    delayMs: COUNT.default(500),
    bodyBytes: COUNT.default(64 * MIB),
  })
    .refine(hasRateForBurst, BURST_ALONE)
    .prefault({}),
  waiting: closed({
    perPrincipal: COUNT.default(100),
    total: COUNT.default(1_000),
    longestSeconds: z.int().min(1).max(LONGEST_WAIT_S).default(LONGEST_WAIT_S),
  }).prefault({}),
})
  .superRefine(({ byPrincipal }, context) => {
    for (const id of Object.keys(byPrincipal)) {
      if (!PRINCIPAL.test(id))
        context.addIssue({ code: 'custom', path: ['byPrincipal', id], message: NO_PRINCIPAL })
    }
  })
  .prefault({})

const WINDOW = z.string().transform((text, context) => {
  const [, count = '', unit = ''] = /^([1-9]\d{0,4})([mhd])$/.exec(text) ?? []
  const windowMs = Number(count) * (WINDOW_UNITS[unit] ?? 0)
  if (windowMs > 0 && windowMs <= LONGEST_WINDOW_MS) return windowMs
  context.addIssue('expected minutes, hours or days, such as "15m", "1h" or "1d", and at most "31d".')
  return z.NEVER
})

const BUDGET = closed({
  for: z.enum(['principal', 'tenant']),
  of: z.array(z.string().min(1)).optional(),
  window: WINDOW,
  calls: COUNT.optional(),
  seconds: AMOUNT.optional(),
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
