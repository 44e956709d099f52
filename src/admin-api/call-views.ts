/**
 * Operations that show many calls together: errors by cause, and the calls of one run, session or trace. They take the filters of the list
 * of calls and show nothing that the list hides.
 */
import { z } from 'zod'
import { CALL, CALL_FILTER } from './calls.ts'
import { type AnswerOf, isWhole, numberInQuery, operation, time, timeInQuery } from './operation.ts'

const MAX_BUCKETS = 200

export const LIST_CALL_ERRORS = operation({
  route: 'GET /admin/calls/errors',
  scope: 'admin:calls',
  summary:
    'Failed calls and rejected requests, grouped by tool, error code and message; the most frequent first. Without `since`: those of the last 24 hours.',
  query: () =>
    CALL_FILTER()
      .omit({ state: true, slow: true, quick: true })
      .extend({
        buckets: numberInQuery(MAX_BUCKETS, 1)
          .default(24)
          .describe('Number of equal intervals of the time span.'),
        limit: numberInQuery(500, 1).default(100),
      }),
  answer: () =>
    z.object({
      since: time(),
      until: time(),
      bucket_ms: z.int().min(1),
      errors: z.array(
        z.object({
          kind: z
            .enum(['failed', 'rejected'])
            .describe('`rejected`: the requests were rejected before a call was recorded.'),
          tool: z
            .string()
            .nullable()
            .describe('Without its version; null if the caller cannot see a tool with that name.'),
          code: z.string(),
          message: z.string().describe('The message; `…` stands for ids, numbers and quoted values.'),
          example: z.string().describe('The newest message of the group.'),
          count: z.int().min(1),
          principals: z.int().min(1).describe('Number of different callers.'),
          first_at: time(),
          last_at: time(),
          last_record: z.string().nullable().describe('The newest call; null for rejected requests.'),
          buckets: z.array(z.int().min(0)).describe('Count for each interval, oldest first.'),
        }),
      ),
      whole: isWhole(),
    }),
})
export type CallErrors = AnswerOf<typeof LIST_CALL_ERRORS>
export type ErrorGroup = CallErrors['errors'][number]

const MAX_ID_LENGTH = 512
const id = () => z.string().min(1).max(MAX_ID_LENGTH).optional()

export const SHOW_CONVERSATION = operation({
  route: 'GET /admin/calls/conversation',
  scope: 'admin:calls',
  summary: 'The calls of one run, session or trace with their steps and waits, oldest first.',
  query: () =>
    z.object({
      ...{ run: id(), session: id(), trace: id() },
      at: timeInQuery().describe('A time of the conversation: only calls within a day of it are searched.'),
      tenant: z.string().optional(),
    }),
  answer: () =>
    z.object({
      calls: z.array(
        CALL().extend({
          root: z.string().nullable(),
          waits: z
            .array(
              z.object({
                approval: z.string(),
                from: time(),
                until: time().nullable().describe('Null while the call waits.'),
              }),
            )
            .describe('Times during which the call waited for a decision.'),
        }),
      ),
      whole: isWhole(),
    }),
})
export type Conversation = AnswerOf<typeof SHOW_CONVERSATION>
