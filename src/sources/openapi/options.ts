import { z } from 'zod'
import { Secret } from '#kernel/base/secret'
import { COMMON_OPTIONS } from '#sources/common/options'

/*
 * The options of a source with `type: 'openapi'`. `source-types.ts` puts them into the config schema. Editors show the
 * comments on options, so these are written for operators. Invariant: exactly one of `url` and `file` is set.
 */

/** Matches a `token` of RFC 9110 §5.6.2. */
export const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
export const METHODS = ['get', 'head', 'options', 'put', 'post', 'patch', 'delete'] as const
const MIB = 1_048_576

const ADDRESS = z.string().refine(isAddress, {
  error:
    'expected an http or https URL without user name or fragment, for example "https://api.example.com/openapi.json".',
})

/** A Security Scheme Object as in OpenAPI, for a document that declares no scheme or the wrong one. */
const SCHEME = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('http'), scheme: z.enum(['basic', 'bearer']) }),
  z.strictObject({
    type: z.literal('apiKey'),
    in: z.enum(['header', 'query', 'cookie']),
    name: z.string().min(1),
  }),
  z.strictObject({ type: z.literal('oauth2') }),
])

const CREDENTIAL = z
  .strictObject({
    /** Name of an authorization server in `oauth.providers`: the broker gets the token. */
    provider: z.string().min(1).optional(),
    /** Name of a secret, which comes from the vault or the caller. */
    secret: z.string().min(1).optional(),
    /** Scopes to request besides those that the document requires. */
    scopes: z.array(z.string().min(1)).default([]),
    scheme: SCHEME.optional(),
  })
  .refine(({ provider, secret }) => (provider === undefined) !== (secret === undefined), {
    error: 'expected either `provider` (a name in oauth.providers) or `secret` (the name of a secret).',
  })

export const OPENAPI_OPTIONS = z
  .strictObject({
    type: z.literal('openapi'),
    ...COMMON_OPTIONS,
    /** Address of the document; alternatively `file`. */
    url: ADDRESS.optional(),
    /** Path of the document, relative to the configuration's folder. */
    file: z.string().min(1).optional(),
    /** Headers that are sent with the request for the document, to its origin only. */
    headers: z
      .record(
        z.string().regex(HEADER_NAME, { error: 'expected the name of a header, for example "X-Api-Key".' }),
        // The value is checked here, because a later error would contain it.
        z
          .string()
          .regex(/^[\x20-\x7e]+$/, { error: 'expected printable ASCII: the value of a header.' })
          .transform((text) => new Secret(text)),
      )
      .default({}),
    /** Base address for calls, instead of the servers that the document names. */
    baseUrl: ADDRESS.refine((text) => (URL.parse(text)?.search ?? '') === '', {
      error: 'expected an address without a query: paths are appended to it. Put keys into `security`.',
    }).optional(),
    /** Values of server variables. */
    variables: z.record(z.string().min(1), z.string()).default({}),
    /** Only operations with one of these tags. */
    tags: z.array(z.string().min(1)).optional(),
    /** Only these HTTP methods. */
    methods: z.array(z.enum(METHODS)).optional(),
    deprecated: z.enum(['include', 'exclude']).default('include'),
    /** Credentials by the name of the document's security scheme. */
    security: z.record(z.string().min(1), CREDENTIAL).default({}),
    /** The header parameter for the idempotency key. */
    idempotencyHeader: z.string().min(1).default('Idempotency-Key'),
    /** `any` for a service whose responses do not match its document. */
    output: z.enum(['declared', 'any']).default('declared'),
    maxResponseBytes: z
      .int()
      .min(1)
      .max(64 * MIB)
      .default(10 * MIB),
  })
  .refine(({ url, file }) => (url === undefined) !== (file === undefined), {
    error: 'expected either `url` or `file`: where the OpenAPI document is.',
  })

export type OpenapiOptions = z.output<typeof OPENAPI_OPTIONS>
export type CredentialOption = z.output<typeof CREDENTIAL>

function isAddress(text: string): boolean {
  const url = URL.parse(text)
  if (url === null || url.username !== '' || url.password !== '' || url.hash !== '') return false
  return url.protocol === 'https:' || url.protocol === 'http:'
}
