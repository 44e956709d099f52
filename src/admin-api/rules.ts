/**
 * Operations on standing rules, by which an approver approves the next calls of one tool by one caller in advance. The routes
 * are in `server/approvals/rules.ts`; the console and `collet rules` make rules from a request for approval.
 */
import { z } from 'zod'
import { json, named, numberInQuery, operation, type Shape, time } from './operation.ts'
import { TIER } from './tools.ts'

export const MAX_REASON_LENGTH = 1_000
const MAX_CONDITIONS = 500
const MAX_ALLOWED = 100
const MAX_USES = 1_000_000

const path = () =>
  z.string().max(2_000).describe('JSON Pointer of the member, such as "/amount"; empty for the whole input.')

const CONDITION = named('AdminRuleCondition', () =>
  z.union([
    z.strictObject({ path: path(), equals: json() }),
    z.strictObject({ path: path(), one_of: z.array(json()).min(1).max(MAX_ALLOWED) }),
    z.strictObject({ path: path(), any: z.literal(true) }),
    z.strictObject({ path: path(), min: z.number() }),
    z.strictObject({ path: path(), max: z.number() }),
    z.strictObject({ path: path(), min: z.number(), max: z.number() }),
  ]),
)
/** What a rule requires of one member of the input. */
export type RuleCondition = Shape<typeof CONDITION>

const conditions = () =>
  z
    .array(CONDITION())
    .min(1)
    .max(MAX_CONDITIONS)
    .describe('Each member of an input must be named by a condition that it meets.')

const RULE = named('AdminRule', () =>
  z.object({
    id: z.string(),
    state: z.enum(['active', 'used_up', 'expired', 'revoked']),
    tenant: z.string(),
    principal: z.string().describe('The caller whose calls the rule approves.'),
    user_id: z.string().nullable(),
    tool: z.string(),
    safety_tier: TIER(),
    definition_hash: z.string(),
    stale: z.boolean().describe('The tool has changed since; the rule approves nothing any more.'),
    conditions: z.array(CONDITION()),
    uses: z.int(),
    max_uses: z.int().nullable(),
    expires_at: time(),
    reason: z.string().nullable(),
    approval: z.string().describe('The approval that the rule was made from.'),
    created_by: z.string(),
    created_at: time(),
    revoked_by: z.string().nullable(),
    revoked_at: time().nullable(),
  }),
)
export type Rule = Shape<typeof RULE>

export const LIST_RULES = operation({
  route: 'GET /admin/rules',
  summary: 'Standing rules, newest first.',
  description: 'Needs the start token of the server, or a credential with the scope `approvals:respond`.',
  query: () =>
    z.object({
      state: z.enum(['active', 'all']).default('active'),
      limit: numberInQuery(1_000, 1).default(100),
    }),
  answer: () => z.object({ rules: z.array(RULE()) }),
})

const MAKERS =
  'Needs the start token of the server, or a credential with the scopes `approvals:rules`, `approvals:respond` and the one that the tool requires.'

export const PREVIEW_RULE = operation({
  route: 'POST /admin/approvals/:id/rule-preview',
  scope: 'approvals:rules',
  summary: 'How many of the latest requests a rule would have approved.',
  description: MAKERS,
  body: () => z.strictObject({ conditions: conditions().optional() }).prefault({}),
  answer: () =>
    z.object({
      conditions: z
        .array(CONDITION())
        .describe('The conditions of the request; without them, those that allow only the same input.'),
      covered: z.int(),
      of: z.int().describe('Number of the latest requests of this caller for this tool that were compared.'),
    }),
  errors: [404, 409],
})

export const CREATE_RULE = operation({
  route: 'POST /admin/rules',
  scope: 'approvals:rules',
  summary: 'Approves further calls like this one in advance.',
  description: `${MAKERS} The rule covers the caller, user, credentials, tool definition and safety tier of the approval.`,
  body: () =>
    z.strictObject({
      approval: z.string().describe('Id of the approval that the rule is made from.'),
      conditions: conditions(),
      max_uses: z.int().min(1).max(MAX_USES).optional(),
      expires_at: z.iso.datetime({ offset: true }).describe('At most a year from now.'),
      reason: z.string().max(MAX_REASON_LENGTH).optional(),
    }),
  status: 201,
  answer: () => z.object({ rule: RULE() }),
  errors: [404, 409],
})

export const REVOKE_RULE = operation({
  route: 'DELETE /admin/rules/:rule',
  scope: 'approvals:rules',
  summary: 'Revokes a rule; calls that it already approved may still run.',
  answer: () => z.object({ rule: RULE() }),
  errors: [404],
})
