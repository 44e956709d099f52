/**
 * Operations on credentials in the vault, and on the providers at which people grant access. No answer contains the value of a credential,
 * and no refusal repeats what was sent.
 */
import { z } from 'zod'
import { type AnswerOf, named, operation, type Shape, texts, time } from './operation.ts'

const MAX_VALUE_LENGTH = 64 * 1_024
const MAX_NAME_LENGTH = 256

const SECRET = named('AdminSecret', () =>
  z
    .object({
      ref: z.string(),
      kind: z.enum(['secret', 'token']),
      name: z.string(),
      tenant: z.string(),
      principal: z.string(),
      user: z
        .string()
        .nullable()
        .describe('A digest of the user id, the same for every credential of the user.'),
      scopes: texts(),
      state: z.enum(['live', 'spent']),
      expires_at: time().nullable(),
      created_at: time(),
      updated_at: time(),
    })
    .describe('A credential, without its value.'),
)
/** A credential in the vault, without its value. */
export type StoredCredential = Shape<typeof SECRET>

/** A name that is kept beside a credential. */
const name = () =>
  z
    .string()
    .min(1)
    .max(MAX_NAME_LENGTH)
    .refine((text) => !/\p{Cc}/u.test(text), { error: 'control characters are not allowed.' })

const scopes = () => z.array(z.string().min(1))

export const LIST_SECRETS = operation({
  route: 'GET /admin/secrets',
  scope: 'admin:secrets',
  summary: 'Credentials in the vault, never their values.',
  answer: () => z.object({ secrets: z.array(SECRET()) }),
})

export const SET_SECRET = operation({
  route: 'POST /admin/secrets',
  scope: 'admin:secrets',
  summary: 'Stores a credential in the vault, replacing an earlier one with the same name and owner.',
  body: () =>
    z
      .strictObject(
        {
          name: name(),
          principal: name()
            .optional()
            .describe(
              'The owner: `key:<id>`, `jwt:<issuer>#<sub>`, or `*` for all callers of the tenant. May be left out if callers need no credential.',
            ),
          value: z
            .string()
            .min(1)
            .max(MAX_VALUE_LENGTH, { error: `expected 1 to ${MAX_VALUE_LENGTH} characters.` }),
          user_id: name().optional(),
          kind: z.enum(['secret', 'token']).default('secret'),
          scopes: scopes().default([]).describe('Scopes of a token.'),
          tenant: name().optional(),
        },
        // The error does not repeat names of members that were sent, because a name may be the secret.
        {
          error: ({ code }) => (code === 'unrecognized_keys' ? 'has an unknown member.' : undefined),
        },
      )
      .refine((body) => body.kind === 'token' || body.scopes.length === 0, {
        path: ['scopes'],
        error: 'can only be sent with `kind: "token"`.',
      }),
  answer: () => z.object({ ref: z.string() }),
})

export const REMOVE_SECRET = operation({
  route: 'DELETE /admin/secrets/:ref',
  scope: 'admin:secrets',
  summary: 'Removes a credential, and has its provider revoke it.',
  answer: () =>
    z.object({ ref: z.string(), revoked: z.boolean().describe('Whether the provider revoked it.') }),
  errors: [404],
})

export const LIST_PROVIDERS = operation({
  route: 'GET /admin/providers',
  summary: 'OAuth providers in the config, and who is connected.',
  description:
    'Needs the start token of the server, or any credential. A credential sees its own connections, and with the scope `admin:secrets` those of its tenant.',
  answer: () =>
    z.object({
      providers: z.array(
        z.object({
          id: z.string(),
          at: z.string().describe('The host of the provider.'),
          scopes: texts().describe('Scopes that tools need from the provider.'),
          tools: z.int().describe('Number of tools that need the provider.'),
          can_connect: z.boolean().describe('Whether this server can send people to the provider.'),
          connections: z.array(
            SECRET().pick({
              ref: true,
              tenant: true,
              principal: true,
              user: true,
              scopes: true,
              state: true,
              updated_at: true,
            }),
          ),
        }),
      ),
    }),
})
export type Provider = AnswerOf<typeof LIST_PROVIDERS>['providers'][number]

export const CONNECT_PROVIDER = operation({
  route: 'POST /admin/providers/:id/connect',
  summary: 'Creates a link to a page on which a person grants access for every tool that needs it.',
  description:
    'Any credential may connect its own principal; connecting another principal needs the start token or the scope `admin:secrets`.',
  body: () =>
    z
      .object({
        principal: z.string().optional().describe('Who gets access; default: the sender.'),
        scopes: scopes().optional(),
        tenant: name()
          .optional()
          .describe('Tenant of the principal. Only the start token may name another tenant.'),
      })
      .prefault({}),
  answer: () =>
    z.object({ url: z.string(), check_url: z.string(), principal: z.string(), expires_at: time() }),
  errors: [404],
})
export type ProviderLink = AnswerOf<typeof CONNECT_PROVIDER>
