import { z } from 'zod'
import { Secret } from '#core/secret'
import { closed } from './closed-object.ts'

const TEXT = z.string().min(1)
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** Kept as written, because issuers are compared as text (OIDC Discovery §4.3). Plain http only to this machine. */
const ENDPOINT = TEXT.refine(
  (text) => {
    const url = URL.parse(text)
    if (url === null || url.hash !== '' || url.username !== '' || url.password !== '') return false
    return url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.test(url.hostname))
  },
  { error: 'expected an https URL, for example "https://accounts.example.com"; http only on loopback.' },
)

/** RFC 6749 §3.3. */
const SCOPE = z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, {
  error: 'expected one scope of printable ASCII without spaces.',
})

const CLIENT = {
  clientId: TEXT,
  clientSecret: TEXT.transform((text) => new Secret(text)).optional(),
  clientAuth: z.enum(['basic', 'post', 'none']).optional(),
}

/** What the flow itself sets, and nobody else may. */
const RESERVED = [
  'client_id',
  'code_challenge',
  'code_challenge_method',
  'nonce',
  'redirect_uri',
  'request',
  'request_uri',
  'resource',
  'response_mode',
  'response_type',
  'scope',
  'state',
]

const PROVIDER = closed({
  ...CLIENT,
  issuer: ENDPOINT.optional(),
  authorizationEndpoint: ENDPOINT.optional(),
  tokenEndpoint: ENDPOINT.optional(),
  revocationEndpoint: ENDPOINT.optional(),
  scopes: z.array(SCOPE).optional(),
  alwaysScopes: z.array(SCOPE).default([]),
  resource: ENDPOINT.optional(),
  parameters: z
    .record(
      TEXT.refine((name) => !RESERVED.includes(name), { error: 'is set by the server itself.' }),
      z.string(),
    )
    .default({}),
})
  .refine(
    ({ issuer, authorizationEndpoint, tokenEndpoint }) => {
      const both = authorizationEndpoint !== undefined && tokenEndpoint !== undefined
      return (
        both || (issuer !== undefined && authorizationEndpoint === undefined && tokenEndpoint === undefined)
      )
    },
    { error: 'needs `issuer`, or `authorizationEndpoint` and `tokenEndpoint`.' },
  )
  .refine(hasSecretItNeeds, { error: '`clientAuth` needs a `clientSecret`.' })

const SIGN_IN = closed({
  ...CLIENT,
  issuer: ENDPOINT,
  scopes: z
    .array(SCOPE)
    .default(['openid'])
    .transform((scopes) => [...new Set(['openid', ...scopes])]),
  userClaim: TEXT.default('sub'),
  owners: z.record(TEXT, z.array(TEXT)).default({}),
}).refine(hasSecretItNeeds, { error: '`clientAuth` needs a `clientSecret`.' })

function hasSecretItNeeds({
  clientSecret,
  clientAuth,
}: {
  readonly clientSecret?: Secret | undefined
  readonly clientAuth?: string | undefined
}): boolean {
  return clientSecret !== undefined || clientAuth === undefined || clientAuth === 'none'
}

/** `oauth` of a config. */
export const OAUTH = closed({
  providers: z.record(TEXT, PROVIDER).default({}),
  signIn: SIGN_IN.optional(),
  allowUnboundConsent: z.boolean().default(false),
})

export type ParsedOAuth = z.output<typeof OAUTH>
