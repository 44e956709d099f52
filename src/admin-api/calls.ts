/**
 * Operations that list, count, follow, show and settle recorded calls, and that list requests which were rejected before a call was recorded.
 * Lists, counts and streams share one filter, so that they select the same calls.
 */
import { z } from 'zod'
import { DECISION, MAX_REASON_LENGTH } from './approvals.ts'
import {
  type AnswerOf,
  isWhole,
  json,
  named,
  numberInQuery,
  operation,
  type Shape,
  texts,
  time,
  timeInQuery,
} from './operation.ts'
import { TIER } from './tools.ts'

const MAX_TOOL_LENGTH = 300
const MAX_ID_LENGTH = 512
const MAX_BUCKETS = 500
export const MAX_RECORDS = 100

const STATE = () => z.enum(['parked', 'running', 'succeeded', 'failed', 'released', 'ambiguous'])
const COUNTS = () => z.partialRecord(STATE(), z.int().min(1))

const summary = () => ({
  record: z.string(),
  tenant: z.string(),
  principal: z.string(),
  tool: z.string(),
  safety_tier: TIER(),
  state: STATE(),
  attempt: z.int(),
  parent: z.string().nullable().describe('For a step, the record of the call of its workflow.'),
  created_at: time(),
  finished_at: time().nullable(),
  took_ms: z.int().nullable().describe('From the request to the end, including the wait for approval.'),
  ran_ms: z.number().nullable().describe('Run time of the last attempt. Also null for a settled call.'),
  error_code: z.string().nullable(),
})

export const CALL = named('AdminCall', () =>
  z
    .object({
      ...summary(),
      call_id: z.string(),
      run_id: z.string(),
      trace_id: z.string(),
      protocol: z.string().nullable(),
      user_id: z.string().nullable(),
      session_id: z.string().nullable(),
      by: z.string().nullable().describe('The operator who ran it in the console as the principal.'),
      result_expired: z.boolean(),
      has_late_result: z.boolean(),
      error_message: z
        .string()
        .nullable()
        .describe('The message that the caller got, on one line of at most 300 characters.'),
      cost: z
        .number()
        .nullable()
        .describe(
          'Cost units of its attempts, by the current policy of the tool; null if the tool has not run, or its policy is not known here.',
        ),
      input_summary: z
        .string()
        .nullable()
        .optional()
        .describe('Only with `inputs=yes`: the beginning of the input on one line; null if it is not kept.'),
    })
    .describe('A call, without input and outcome.'),
)
export type ListedCall = Shape<typeof CALL>

/** A call in the event `calls` of the stream. */
const CHANGED_CALL = () =>
  z.object({
    ...summary(),
    by: z.string().optional(),
    events: texts().describe('Events of the call since the previous message, in order.'),
  })
export type ChangedCall = Shape<typeof CHANGED_CALL>

/** The event `calls` of the stream. */
export interface CallChanges {
  readonly calls: readonly ChangedCall[]
  /** Records of calls that no longer match the filter. */
  readonly left: readonly string[]
}

const TIMELINE = () =>
  z.array(z.object({ at: time(), event: z.string(), facts: z.record(z.string(), z.unknown()) }))
export type TimelineEntry = Shape<typeof TIMELINE>[number]

const OUTCOME = () =>
  z.discriminatedUnion('ok', [
    z.object({ ok: z.literal(true), value: z.unknown() }),
    z.object({
      ok: z.literal(false),
      error: z.object({
        code: z.string(),
        message: z.string(),
        can_retry: z.boolean(),
        developer_message: z.string().optional(),
        effect: z.string().optional(),
      }),
    }),
  ])
export type CallOutcome = Shape<typeof OUTCOME>

const CALL_DETAILS = named('AdminCallDetails', () =>
  CALL().extend({
    definition_hash: z.string(),
    root: z.string().nullable(),
    waits_for: z.string().nullable(),
    timeline: TIMELINE(),
    steps: z.array(CALL().extend({ timeline: TIMELINE() })),
    journal: z
      .array(
        z.object({
          writer: z.string(),
          group: z.int(),
          link: z.string(),
          at: time(),
          events: z.array(z.looseObject({ type: z.string(), at: z.number() })),
        }),
      )
      .describe('The journal commits that concern the call.'),
    approval: z
      .object({ id: z.string(), decisions: z.array(DECISION()) })
      .nullable()
      .describe('Null if there is no approval, or the reader may not see approvals.'),
    contents: z
      .enum(['shown', 'hidden', 'unasked', 'gone'])
      .describe(
        'Whether input and outcome are shown: `hidden` without the scope, `unasked` with `contents=no`.',
      ),
    input: z.unknown().optional(),
    outcome: OUTCOME().optional(),
    late_outcome: OUTCOME().optional(),
    log: z
      .array(
        z.object({
          at: time(),
          level: z.enum(['debug', 'info', 'warn', 'error']),
          text: z.string(),
        }),
      )
      .optional()
      .describe(
        'What the tool logged, with the errors that it threw and what its command wrote to stderr; shown with the input.',
      ),
  }),
)
/** A call with its timeline, its steps and its journal commits. */
export type CallDetails = Shape<typeof CALL_DETAILS>

const id = () => z.string().min(1).max(MAX_ID_LENGTH).optional()

/** Finds calls by ids, callers, errors and inputs. These filters are compared call by call, so streams do not take them. */
const search = () => ({
  id: id().describe(
    'Any id: of the call, its record, run, session, trace, user, workflow or approval; or a `traceparent`.',
  ),
  call_id: id().describe('The id that the caller gave the call.'),
  run: id(),
  session: id(),
  user: id(),
  trace: id(),
  protocol: id(),
  parent: id().describe('The record of the workflow.'),
  code: id().describe('The error code.'),
  error: z
    .string()
    .min(1)
    .max(MAX_TOOL_LENGTH)
    .optional()
    .describe(
      'Part of the error message, in any case. `…` stands for the parts that groups of errors leave out.',
    ),
})
/** The members of a search, for operations without it. */
export const SEARCH = {
  id: true,
  call_id: true,
  run: true,
  session: true,
  user: true,
  trace: true,
  protocol: true,
  parent: true,
  code: true,
  error: true,
} as const

/** Selects the same calls in lists and counts, and without the search in streams. */
export const CALL_FILTER = () =>
  z.object({
    state: z
      .string()
      .optional()
      .describe(
        'One or more states, separated by commas: parked, running, succeeded, failed, released, ambiguous; error stands for failed, released and ambiguous; rejected stands for rejected requests.',
      ),
    tool: z
      .string()
      .max(MAX_TOOL_LENGTH)
      .optional()
      .describe('Any name of the tool; `Name@1.0.0` for one version, `*` for any text.'),
    principal: z.string().optional(),
    tenant: z.string().optional(),
    since: timeInQuery(),
    until: timeInQuery(),
    slow: numberInQuery().optional().describe('Calls that took this many milliseconds or more.'),
    quick: numberInQuery().optional().describe('Calls that took less than this many milliseconds.'),
    ...search(),
  })
/** A filter as the server reads it. */
export type CallFilterQuery = Shape<typeof CALL_FILTER>

const page = () => ({
  before: numberInQuery().optional().describe('`next` of the previous page.'),
  limit: numberInQuery(1_000, 1).default(100),
})
const next = () => z.int().nullable().describe('Send it as `before` for the next page; null at the end.')

export const LIST_ALL_CALLS = operation({
  route: 'GET /admin/calls',
  scope: 'admin:calls',
  summary: 'Calls of the tenant, newest first; the operator sees every tenant.',
  query: () =>
    CALL_FILTER().extend({
      record: z.string().optional().describe('The beginning of a record id.'),
      records: z
        .string()
        .optional()
        .describe(
          `Exactly these records, separated by commas, at most ${MAX_RECORDS}; other filters are ignored.`,
        ),
      inputs: z
        .enum(['yes', 'no'])
        .default('no')
        .describe(
          '`yes` adds `input_summary` and needs the scope `calls:read`; that each input was read is journaled.',
        ),
      ...page(),
    }),
  answer: () => z.object({ calls: z.array(CALL()), next: next() }),
})
export type CallPage = AnswerOf<typeof LIST_ALL_CALLS>

export const LIST_REJECTED_REQUESTS = operation({
  route: 'GET /admin/calls/rejected',
  scope: 'admin:calls',
  summary:
    'Requests that were rejected before a call was recorded, newest first: one row per caller, tool, error code and minute.',
  query: () =>
    CALL_FILTER()
      .omit({ state: true, slow: true, quick: true, ...SEARCH })
      .extend({
        code: z.string().optional().describe('Only requests that were answered with this error code.'),
        ...page(),
      }),
  answer: () =>
    z.object({
      rejected: z.array(
        z.object({
          no: z.int(),
          tenant: z.string(),
          principal: z.string(),
          tool: z.string().nullable().describe('Null if the caller cannot see a tool with that name.'),
          code: z.string(),
          requests: z.int().min(1).describe('Rejected requests of this kind in that minute.'),
          last_at: time(),
          message: z.string().describe('The answer to the last of these requests.'),
        }),
      ),
      next: next(),
    }),
})
export type RejectedRequest = AnswerOf<typeof LIST_REJECTED_REQUESTS>['rejected'][number]

export const COUNT_ALL_CALLS = operation({
  route: 'GET /admin/calls/stats',
  scope: 'admin:calls',
  summary: 'Counts calls by time of the request and by state. Without `since`: those of the last 30 minutes.',
  query: () =>
    CALL_FILTER().extend({
      buckets: numberInQuery(MAX_BUCKETS, 1)
        .default(60)
        .describe('Number of equal intervals of the time span.'),
    }),
  answer: () =>
    z.object({
      since: time(),
      until: time(),
      bucket_ms: z.int().min(1),
      states: COUNTS().describe('Number of calls by state; states without calls are absent.'),
      rejected: z
        .record(z.string(), z.int().min(1))
        .describe('Requests that were rejected before a call was recorded, by error code.'),
      buckets: z
        .array(z.object({ at: time(), states: COUNTS(), rejected: z.int().min(0) }))
        .describe('Oldest first; buckets without a call or a rejected request are absent.'),
      whole: isWhole(),
    }),
})
export type CallStats = AnswerOf<typeof COUNT_ALL_CALLS>

export const FOLLOW_ALL_CALLS = operation({
  route: 'GET /admin/calls/events',
  scope: 'admin:calls',
  summary: 'Calls as they begin, wait, end and are settled, on every server of the store.',
  description:
    'The first event is `ready`; with `missed: true` the stream lacks changes since `Last-Event-ID`, so list calls again. `calls` has the current state of changed calls, and the records that no longer match the filter (`left`). `end` states why the stream ends: the credential is no longer valid, the reader was too slow, or the server is stopping.',
  headers: { 'Last-Event-ID': 'The id of the last event that arrived: the stream continues after it.' },
  query: () =>
    CALL_FILTER()
      .omit(SEARCH)
      .extend({
        after: z.string().optional().describe('For clients that cannot send the header `Last-Event-ID`.'),
      }),
  errors: [429],
})

export const SHOW_CALL = operation({
  route: 'GET /admin/calls/:record',
  scope: 'admin:calls',
  summary:
    'One call with its timeline and steps. With the scope `calls:read` it includes input and outcome, and that read is journaled.',
  query: () =>
    z.object({
      contents: z
        .enum(['yes', 'no'])
        .default('yes')
        .describe('`no` leaves input and outcome out, and leaves no trace in the journal.'),
    }),
  answer: () => z.object({ call: CALL_DETAILS() }),
  errors: [404],
})

const END = () => z.enum(['succeeded', 'failed', 'not-run'])
const WHY_EXPECTED = `expected a string of 1 to ${MAX_REASON_LENGTH} characters that states how you know.`

export const SETTLE_CALL = operation({
  route: 'POST /admin/calls/:record/settle',
  scope: 'calls:settle',
  summary: 'Records how an ambiguous call ended.',
  body: () =>
    z
      .strictObject({
        as: END(),
        why: z
          .string({ error: WHY_EXPECTED })
          .min(1, { error: WHY_EXPECTED })
          .max(MAX_REASON_LENGTH, { error: WHY_EXPECTED })
          .refine((text) => text.trim() !== '', { error: WHY_EXPECTED }),
        value: json()
          .optional()
          .describe('With `as: "succeeded"`: the value that the call returns from now on.'),
      })
      .refine(({ as, value }) => value === undefined || as === 'succeeded', {
        path: ['value'],
        error: 'can only be sent with `as: "succeeded"`.',
      }),
  answer: () => z.object({ record: z.string(), settled_as: END() }),
  errors: [404],
})
