/**
 * Operations that list, show, approve and reject approvals, and that make approval links. The routes are in
 * `server/admin/approvals.ts`; webhooks send the same members.
 */
import { z } from 'zod'
import { type AnswerOf, json, named, numberInQuery, operation, type Shape, time } from './operation.ts'
import { DIFFERENCE } from './pins.ts'
import { APPROVAL as NEEDED, TIER } from './tools.ts'

export const MAX_REASON_LENGTH = 1_000
const APPROVAL_STATES = ['pending', 'granted', 'used', 'rejected', 'expired', 'cancelled'] as const
const APPROVER_NAME = /^[A-Za-z0-9][A-Za-z0-9._@+|:-]{0,127}$/

export const DECISION = named('AdminDecision', () =>
  z.object({
    by: z.string(),
    action: z.enum(['grant', 'reject', 'override']),
    reason: z.string().nullable(),
    at: time(),
  }),
)

const members = () => ({
  id: z.string(),
  state: z.enum(APPROVAL_STATES),
  stale: z.boolean().describe('The tool has changed since the request; the approval can only be rejected.'),
  tenant: z.string(),
  principal: z.string(),
  record: z.string(),
  call_id: z.string(),
  run_id: z.string(),
  user_id: z.string().nullable(),
  user_proven: z.boolean(),
  attempt: z.int(),
  tool: z.string(),
  tool_id: z.string(),
  safety_tier: TIER(),
  args_hash: z.string(),
  definition_hash: z.string(),
  summary: json().describe('Null without the scope `approvals:respond`.'),
  input_bytes: z.int(),
  hidden_values: z
    .int()
    .describe('Number of values in the input that are hidden, because they are credentials.'),
  hides_something: z
    .boolean()
    .describe('Whether part of the input is hidden; approving it then requires `accept_hidden`.'),
  quorum: z.int(),
  required_scope: z.string().nullable(),
  created_at: time(),
  expires_at: time(),
  decided_at: time().nullable(),
  decisions: z.array(DECISION()),
})

const LISTED_APPROVAL = named('AdminListedApproval', () =>
  z.object({
    ...members(),
    description: z.string().nullish(),
    input: json().optional().describe('Only in lists that `collet` reads from a store in its own process.'),
    obstacle: z
      .enum(['scope', 'own', 'approved_before'])
      .nullable()
      .describe(
        'Why the reader cannot approve it: a missing scope, a call of their own, or an approval that they gave before.',
      ),
  }),
)
export type ListedApproval = Shape<typeof LISTED_APPROVAL>

const APPROVAL = named('AdminApproval', () =>
  LISTED_APPROVAL().extend({
    description: z.string().nullable(),
    input: json().optional().describe('The arguments, for the scope `approvals:respond`.'),
    needed: NEEDED().nullable().describe('When calls of the tool need approval.'),
    link_may_decide: z.boolean().describe('Whether a link can decide this approval, not only show it.'),
    credentials: z
      .array(z.object({ kind: z.enum(['authorization', 'secret']), id: z.string() }))
      .describe('Credentials that the tool gets; the approval covers exactly these.'),
    changes: z
      .array(DIFFERENCE())
      .nullable()
      .describe(
        'Changes to the tool since a stale approval was requested; empty if only its code has changed.',
      ),
  }),
)
/** An approval with everything that an approver needs to decide it. */
export type Approval = Shape<typeof APPROVAL>

export const APPROVAL_FILTER = () =>
  z.object({ state: z.enum(APPROVAL_STATES).optional(), limit: numberInQuery(1_000, 1).default(100) })

const READERS =
  'Needs the start token of the server, or a credential with the scope `approvals:read` or `approvals:respond`. Input and summary are only shown with `approvals:respond`.'
const APPROVERS = 'Needs the start token of the server, or a credential with the scope `approvals:respond`.'

export const LIST_APPROVALS = operation({
  route: 'GET /admin/approvals',
  summary: 'Calls that wait or waited for approval.',
  description: READERS,
  query: APPROVAL_FILTER,
  answer: () => z.object({ approvals: z.array(LISTED_APPROVAL()) }),
})

export const SHOW_APPROVAL = operation({
  route: 'GET /admin/approvals/:id',
  summary: 'One approval, with its arguments.',
  description: READERS,
  answer: () => z.object({ approval: APPROVAL() }),
  errors: [404],
})

/** Every member is optional, and so is the body. */
export const DECISION_BODY = () =>
  z
    .strictObject({
      reason: z
        .string()
        .max(MAX_REASON_LENGTH)
        .refine((text) => !text.includes('\0'), { error: 'must not contain NUL.' })
        .optional(),
      override: z
        .boolean()
        .default(false)
        .describe('Decides without other approvers; needs the scope `approvals:override` and a reason.'),
      accept_hidden: z.boolean().default(false).describe('Approves although part of the input is hidden.'),
    })
    .prefault({})

const decide = (verb: 'approve' | 'reject', summary: string) =>
  operation({
    route: `POST /admin/approvals/:id/${verb}`,
    summary,
    description: APPROVERS,
    body: DECISION_BODY,
    answer: () => z.object({ approval: APPROVAL() }),
    errors: [404, 409, 410, 422],
  })

export const APPROVE_CALL = decide('approve', 'Approves a call.')
export const REJECT_CALL = decide('reject', 'Rejects a call.')

const POWER = () => z.enum(['decide', 'inspect'])
const NAME_EXPECTED = 'expected the name of the person the link is for, for example "alice@example.com".'

export const MAKE_APPROVAL_LINK = operation({
  route: 'POST /admin/approvals/:id/link',
  summary: 'Makes a one-time link for one approver.',
  description: APPROVERS,
  body: () =>
    z.strictObject({
      approver: z.string({ error: NAME_EXPECTED }).regex(APPROVER_NAME, { error: NAME_EXPECTED }),
      power: POWER().default('decide'),
    }),
  answer: () =>
    z.object({
      url: z.string(),
      token: z.string(),
      approver: z.string(),
      power: POWER().describe('Without a sign-in, a link may only be able to show the approval.'),
      needs_sign_in: z.boolean(),
    }),
  errors: [404, 409, 410, 422],
})
export type ApprovalLink = AnswerOf<typeof MAKE_APPROVAL_LINK>
