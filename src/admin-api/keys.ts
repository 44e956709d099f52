/**
 * Operations on the API keys of the store, and on the principals that own them. A key itself is returned once, when it is created.
 * The server also checks names and scopes, as it does for the config.
 */
import { z } from 'zod'
import { type AnswerOf, named, operation, type Shape, texts, time } from './operation.ts'

const MAX_ENTRIES = 1_000
const MAX_LABEL_LENGTH = 200
const MAX_OVERLAP_SECONDS = 366 * 86_400

const KEY = named('AdminKey', () =>
  z.object({
    key_id: z.string(),
    tenant: z.string(),
    principal: z.string(),
    label: z.string().nullable(),
    scopes: texts(),
    roles: texts(),
    tools: texts()
      .nullable()
      .describe('The only tools that the key may call, by name or pattern. Null: all.'),
    toolsets: texts(),
    created_at: time(),
    expires_at: time().nullable(),
    revoked_at: time().nullable(),
    last_used_at: time().nullable(),
  }),
)
/** Everything about a key except the key. */
export type ApiKey = Shape<typeof KEY>

const NEW_KEY = named('AdminNewKey', () =>
  z.object({
    tenant: z.string(),
    principal: z.string(),
    key_id: z.string(),
    key: z.string().describe('Shown only here.'),
    expires_at: time().nullable(),
    warnings: texts().describe('Effects of the first key, and grants of the key that have no effect now.'),
  }),
)
export type NewKey = Shape<typeof NEW_KEY>

export const LIST_KEYS = operation({
  route: 'GET /admin/keys',
  scope: 'admin:keys',
  summary: 'API keys, without the keys themselves.',
  answer: () =>
    z.object({
      keys: z.array(KEY()),
      configured: z
        .array(
          KEY().pick({
            principal: true,
            tenant: true,
            scopes: true,
            roles: true,
            tools: true,
            expires_at: true,
          }),
        )
        .describe('Keys in the configuration, which can only be changed there.'),
    }),
})
export type ConfiguredKey = AnswerOf<typeof LIST_KEYS>['configured'][number]

const terms = () => ({
  tenant: z.string().optional(),
  label: z.string().min(1).max(MAX_LABEL_LENGTH).optional(),
  expires_at: z.iso.datetime({ offset: true }).optional(),
})

export const CREATE_KEY = operation({
  route: 'POST /admin/keys',
  scope: 'admin:keys',
  summary: 'Creates a principal with its first key.',
  body: () =>
    z.strictObject({
      principal: z.string().describe('1 to 128 letters, digits, ".", "_", "@" or "-".'),
      ...terms(),
      scopes: texts().max(MAX_ENTRIES).default([]),
      roles: texts().max(MAX_ENTRIES).default([]),
      tools: texts()
        .max(MAX_ENTRIES)
        .optional()
        .describe('The only tools that the key may call, by name or pattern.'),
      toolsets: texts().max(MAX_ENTRIES).optional(),
    }),
  status: 201,
  answer: NEW_KEY,
  errors: [409],
})

export const REVOKE_KEY = operation({
  route: 'DELETE /admin/keys/:key_id',
  scope: 'admin:keys',
  summary: 'Revokes one key.',
  answer: () => z.object({ key_id: z.string(), revoked: z.boolean() }),
  errors: [404],
})

export const ROTATE_KEY = operation({
  route: 'POST /admin/principals/:principal/keys',
  scope: 'admin:keys',
  summary: 'Creates another key for a principal, and can set a time at which its old keys end.',
  body: () =>
    z
      .strictObject({
        ...terms(),
        old_ends_in_seconds: z
          .int()
          .min(0)
          .max(MAX_OVERLAP_SECONDS)
          .optional()
          .describe('Time after which the old keys end.'),
      })
      .prefault({}),
  status: 201,
  answer: NEW_KEY,
  errors: [404],
})

export const END_PRINCIPAL = operation({
  route: 'DELETE /admin/principals/:principal',
  scope: 'admin:keys',
  summary: 'Ends a principal permanently: its name can never be used again.',
  query: () => z.object({ tenant: z.string().optional() }),
  answer: () => z.object({ tenant: z.string(), principal: z.string(), ended: z.boolean() }),
  errors: [404],
})
