/**
 * Operations on a server as a whole: its addresses, its journal and audit stream, its webhooks, its configuration, the sign-in of a
 * browser, and the document of all operations.
 */
import { z } from 'zod'
import {
  type AnswerOf,
  named,
  numberInQuery,
  operation,
  type Shape,
  texts,
  time,
  timeInQuery,
} from './operation.ts'

const CLIENT_CONFIG = named('AdminClientConfig', () =>
  z.object({
    name: z.string(),
    title: z.string(),
    kind: z.enum(['json', 'toml', 'yaml', 'terminal', 'code']),
    place: z.string().describe('Where the text goes: a file, or the terminal.'),
    text: z.string(),
    command: z.string().nullable().describe('The command that does the same without pasting.'),
    link: z.string().nullable().describe('Opens the client, which asks whether to add the server.'),
    after: z.string().describe('What to do after pasting the text.'),
  }),
)
/** The text to paste for one client or library, and where to paste it. */
export type ClientConfig = Shape<typeof CLIENT_CONFIG>

export const DESCRIBE_SERVER = operation({
  route: 'GET /admin/server',
  access: 'callers',
  summary: 'Addresses of the protocols and toolsets, and the text to paste into each client.',
  query: () =>
    z.object({ toolset: z.string().optional().describe('Connects clients to this toolset only.') }),
  answer: () =>
    z.object({
      version: z.string(),
      url: z.string(),
      store: z.enum(['SQLite', 'PostgreSQL', 'memory']),
      needs_key: z.boolean(),
      own_machine: z.boolean(),
      protocols: z.array(z.object({ name: z.string(), title: z.string(), url: z.string() })),
      toolsets: z.array(z.object({ name: z.string(), description: z.string().nullable(), url: z.string() })),
      clients: z.array(CLIENT_CONFIG()),
      kept: z.object({ journal_days: z.number(), result_hours: z.number() }),
    }),
})
export type ServerAbout = AnswerOf<typeof DESCRIBE_SERVER>

export const READ_ONBOARDING = operation({
  route: 'GET /admin/server/onboarding',
  access: 'callers',
  summary: 'Whether a tool has been called, and the latest call that came over MCP.',
  description: 'Covers the caller’s own calls; with the scope `admin:calls`, the calls of its tenant.',
  answer: () =>
    z.object({
      has_calls: z.boolean(),
      agent_call: z.object({ record: z.string(), tool: z.string(), at: time() }).nullable(),
    }),
})
export type Onboarding = AnswerOf<typeof READ_ONBOARDING>

const JOURNAL_CHECK = named('AdminJournalCheck', () =>
  z.object({
    ok: z.boolean(),
    at: time(),
    took_ms: z.number(),
    chains: z.int(),
    groups: z.int(),
    events: z.int(),
    rows: z.int(),
    heads: z
      .array(z.object({ writer: z.string(), group: z.int(), link: z.string() }))
      .describe(
        'The newest link of each chain. If a link is kept elsewhere, `collet journal verify --head` can later detect a truncated chain.',
      ),
    first_bad: z.object({ writer: z.string(), group: z.int(), reason: z.string() }).nullable(),
    bad_rows: z.array(z.object({ row: z.string(), reason: z.string() })),
    cannot_see: texts().describe('Manipulations that this check cannot detect, as sentences.'),
  }),
)
export type JournalCheck = Shape<typeof JOURNAL_CHECK>

export const READ_JOURNAL_STATE = operation({
  route: 'GET /admin/journal',
  serverScope: 'audit:read',
  summary: 'The result of the last journal check in this process, and whether a check is running.',
  answer: () => z.object({ last: JOURNAL_CHECK().nullable(), chains: z.int(), checking: z.boolean() }),
})
export type JournalState = AnswerOf<typeof READ_JOURNAL_STATE>

export const VERIFY_JOURNAL = operation({
  route: 'POST /admin/journal/verify',
  serverScope: 'audit:read',
  summary: 'Checks the whole journal and every guarded row, while calls run.',
  description:
    'The answer is a stream of events: `progress` (`checked` of about `groups`), and at the end `verified` (AdminJournalCheck) or `stopped` with a `message`. Closing the connection ends the check. A check stops after two minutes; `collet journal verify` has no time limit.',
  errors: [409],
})

export const READ_AUDIT = operation({
  route: 'GET /admin/audit',
  scope: 'audit:read',
  summary: 'Refused requests, oldest first.',
  description:
    'With the scope `admin:keys`, rows have `principal_id` for principals that have a key or called recently.',
  query: () =>
    z.object({
      principal: z.string().optional().describe('Only refusals of this principal: id or opaque name.'),
      since: timeInQuery(),
      after: numberInQuery().default(0),
      limit: numberInQuery(1_000).default(100),
    }),
  answer: () =>
    z.object({
      events: z.array(
        z.object({
          no: z.int(),
          type: z.literal('authorization.decided'),
          at: time(),
          tenant: z.string(),
          principal: z.string().describe('Opaque.'),
          principal_id: z.string().optional(),
          action: z.string(),
          resource: z.string(),
          reason: z.string(),
          count: z.int(),
          allowed: z.literal(false),
        }),
      ),
      next: z.int().describe('Send it as `after` for the next page.'),
    }),
})
/** One refusal of the audit stream. */
export type Refusal = AnswerOf<typeof READ_AUDIT>['events'][number]

export const LIST_WEBHOOKS = operation({
  route: 'GET /admin/webhooks',
  serverScope: 'admin:webhooks',
  summary: 'Receivers of notices, the events that each of them gets, and the state of deliveries.',
  answer: () =>
    z.object({
      webhooks: z.array(
        z.object({
          name: z.string(),
          to: z.string().describe('The origin of its address; the path may be a secret.'),
          format: z.string(),
          events: texts(),
          approver: z.string().nullable(),
          signed: z.boolean(),
          delivered: z.int(),
          last_delivered_at: time().nullable(),
          waiting: z.int(),
          waiting_since: time().nullable(),
          given_up: z.int(),
          last_failed_at: time().nullable(),
          last_failure: z.string().nullable(),
        }),
      ),
      unclaimed: z.int().describe('Messages for receivers that this config does not have.'),
    }),
})
export type Webhooks = AnswerOf<typeof LIST_WEBHOOKS>

export const TEST_WEBHOOKS = operation({
  route: 'POST /admin/webhooks/test',
  serverScope: 'admin:webhooks',
  summary: 'Sends samples to webhooks of the config, and reports what they answered.',
  body: () =>
    z.strictObject({ name: z.string().optional().describe('The webhook; default: all.') }).prefault({}),
  answer: () =>
    z.object({
      results: z.array(
        z.object({ webhook: z.string(), event: z.string(), taken: z.boolean(), answer: z.string() }),
      ),
    }),
})
/** A receiver's answer to a sample. */
export type WebhookTrial = AnswerOf<typeof TEST_WEBHOOKS>['results'][number]

export const RELOAD_CONFIG = operation({
  route: 'POST /admin/reload',
  serverScope: 'admin:reload',
  summary: 'Makes all servers of the store reload the config.',
  answer: () =>
    z.object({
      applied: texts().nullable().describe('Null if no server is running.'),
      needs_restart: texts().optional(),
      refused: texts().optional(),
    }),
})
export type Reloaded = AnswerOf<typeof RELOAD_CONFIG>

/** The id of an approval that the page opens after the sign-in. */
export const APPROVAL_ID = /^[\w-]{1,64}$/

export const SIGN_IN_BROWSER = operation({
  route: 'POST /admin/sign-in',
  summary: 'Creates a one-time address that signs a browser on this machine in as the operator.',
  description: 'Needs the start token of the server.',
  body: () => z.strictObject({ approval: z.string().regex(APPROVAL_ID).optional() }).prefault({}),
  answer: () => z.object({ url: z.string() }),
  errors: [409],
})

export const READ_ADMIN_DOCUMENT = operation({
  route: 'GET /admin/openapi.json',
  access: 'open',
  summary: 'This document, in OpenAPI 3.1.',
  answer: () => z.record(z.string(), z.unknown()),
})
