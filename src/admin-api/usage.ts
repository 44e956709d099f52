/**
 * Operations that report what callers used, what is left of their budgets, and the limits on calls. Times are in seconds, except the
 * durations of individual calls, which are in milliseconds.
 */
import { z } from 'zod'
import { type AnswerOf, isWhole, operation, time, timeInQuery } from './operation.ts'

const tenant = () => z.string().optional()

export const READ_USAGE = operation({
  route: 'GET /admin/usage',
  scope: 'admin:calls',
  summary: 'Calls, errors, time and cost of tenants, principals and tools.',
  query: () => z.object({ since: timeInQuery(), until: timeInQuery(), tenant: tenant() }),
  answer: () =>
    z.object({
      usage: z.array(
        z.object({
          tenant: z.string(),
          principal: z.string(),
          tool: z.string().describe('Empty for requests that named a tool which the caller cannot see.'),
          calls: z.int(),
          errors: z.int(),
          rejected: z.int().describe('Requests that were rejected before a call was recorded.'),
          seconds: z.number(),
          cost: z.number(),
          durations: z
            .array(z.tuple([z.number(), z.int()]))
            .describe(
              'Pairs of a duration in milliseconds, rounded to two digits, and the number of calls with this duration.',
            ),
        }),
      ),
      whole: isWhole(),
    }),
})
/** One principal's usage of one tool. */
export type Usage = AnswerOf<typeof READ_USAGE>['usage'][number]

export const READ_BUDGETS = operation({
  route: 'GET /admin/budgets',
  scope: 'admin:calls',
  summary: 'What is left of each budget, and when the budget resets.',
  query: () => z.object({ tenant: tenant() }),
  answer: () =>
    z.object({
      budgets: z.array(
        z.object({
          tenant: z.string(),
          principal: z.string().nullable().describe('Null: the budget of the whole tenant.'),
          window_seconds: z.number(),
          resets_at: time(),
          units: z.array(
            z.object({
              unit: z.string(),
              limit: z.number().nullable().describe('Null without a limit or without a known config.'),
              used: z.number(),
              left: z.number().nullable(),
            }),
          ),
        }),
      ),
    }),
})
export type Budget = AnswerOf<typeof READ_BUDGETS>['budgets'][number]

export const READ_LIMITS = operation({
  route: 'GET /admin/limits',
  scope: 'admin:calls',
  summary: 'Limits on parallel calls and on the rate of calls, and how many calls run in this process now.',
  answer: () =>
    z.object({
      now: z.array(
        z.object({ what: z.enum(['running', 'writing']), used: z.number(), limit: z.number().nullable() }),
      ),
      rules: z.array(
        z.object({
          of: z.enum(['server', 'principal', 'tool']),
          name: z.string().nullable(),
          rate: z.object({ per_minute: z.number(), burst: z.number() }).nullable(),
          at_once: z.number().nullable(),
        }),
      ),
    }),
})
export type Limits = AnswerOf<typeof READ_LIMITS>
