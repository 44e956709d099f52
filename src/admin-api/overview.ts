/**
 * The operation behind the overview: counts and durations of calls over a time range, and what needs attention now. The console and
 * `collet overview` show its answer, which is read from counts that the store keeps, so its cost does not grow with the number of
 * calls.
 */
import { z } from 'zod'
import { type AnswerOf, named, operation, time, timeInQuery } from './operation.ts'

const LAST = /^[1-9]\d{0,4}[mhd]$/

const counts = {
  calls: z
    .int()
    .describe('Calls that ended in this time. A call that was retried counts once for each attempt.'),
  errors: z.int().describe('Those that failed, may be retried, or have an unknown outcome.'),
  rejected: z.int().describe('Requests that were rejected before a call was recorded.'),
}

const durations = {
  p50_ms: z.number().nullable().describe('Median run time; null if nothing ran.'),
  p95_ms: z.number().nullable(),
}

const ATTENTION = named('AdminAttention', () =>
  z.object({
    approvals: z
      .int()
      .nullable()
      .describe('Calls that wait for approval, at most 100; null without a scope that shows approvals.'),
    ambiguous: z.int().describe('Calls whose outcome is unknown until an operator settles them.'),
    held: z
      .array(z.object({ source: z.string(), definitions: z.int() }))
      .nullable()
      .describe('Changed definitions that wait for a decision; null without the scope `admin:pins`.'),
    sources: z
      .array(
        z.object({
          key: z.string(),
          state: z.enum(['down', 'degraded']),
          reason: z.string().nullable(),
          since: time(),
        }),
      )
      .nullable()
      .describe('Sources that are down or degraded; null without the scope `admin:sources`.'),
    budgets: z
      .array(
        z.object({
          tenant: z.string(),
          principal: z.string().nullable().describe('Null: the budget of the whole tenant.'),
          window_seconds: z.number(),
          resets_at: time(),
          unit: z.string(),
          limit: z.number(),
          used: z.number(),
        }),
      )
      .describe('Budgets of which at least 80 percent is used, fullest first.'),
  }),
)

export const READ_OVERVIEW = operation({
  route: 'GET /admin/overview',
  scope: 'admin:calls',
  summary: 'Counts and durations of calls over a time range, and what needs attention now.',
  query: () =>
    z.object({
      range: z
        .string()
        .regex(LAST, { error: 'expected a length of time like 1h, 24h, 7d or 30d.' })
        .optional()
        .describe('The time range ends now and has this length. Default 24h.'),
      since: timeInQuery().describe('Start of a fixed range; it replaces `range`.'),
      until: timeInQuery(),
      tenant: z.string().optional(),
    }),
  answer: () =>
    z.object({
      since: time().describe('Start of the first interval.'),
      until: time(),
      step_seconds: z.int().describe('Length of an interval: a minute, 15 minutes or 3 hours.'),
      ...counts,
      ...durations,
      states: z.record(z.string(), z.int()).describe('Number of calls by state.'),
      buckets: z.array(z.object({ at: time(), ...counts, ...durations })),
      rejections: z
        .array(z.object({ code: z.string(), requests: z.int() }))
        .describe('Rejected requests by cause, most frequent first.'),
      failing_tools: z
        .array(z.object({ tool: z.string(), calls: z.int(), errors: z.int() }))
        .describe('Tools with the most errors.'),
      callers: z
        .array(z.object({ tenant: z.string(), principal: z.string(), ...counts }))
        .describe('Principals with the most requests.'),
      attention: ATTENTION(),
    }),
})
export type Overview = AnswerOf<typeof READ_OVERVIEW>
