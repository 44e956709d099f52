import { isAbsolute } from 'node:path'
import { z } from 'zod'
import { Secret } from '#kernel/base/secret'
import { closed, privateUrl } from './schema-policies.ts'

/**
 * The part of the config schema about authorization servers: providers, the sign-in of people, and how this server authenticates as
 * their client. `schema.ts` includes it; `src/oauth` reads the result.
 * Invariant: every accepted provider states where its tokens come from and how this server authenticates there.
 */

const TEXT = z.string().min(1)

const ENDPOINT = privateUrl(
  'expected an https URL, for example "https://accounts.example.com"; http only on loopback.',
  { mayHaveQuery: true },
)

/** A scope as in RFC 6749 §3.3. */
const SCOPE = z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, {
  error: 'expected one scope of printable ASCII without spaces.',
})

const CLIENT = {
  /** Absent for public clients. */
  clientSecret: TEXT.transform((text) => new Secret(text)).optional(),
  /** How this server authenticates at the token endpoint. Default `basic` with a secret, `private_key_jwt` with a key, else `none`. */
  clientAuth: z.enum(['basic', 'post', 'private_key_jwt', 'none']).optional(),
  /** The private key for `private_key_jwt`: PEM (PKCS #8). */
  privateKey: TEXT.regex(/-----BEGIN PRIVATE KEY-----/, {
    error:
      'expected a PKCS #8 key in PEM: -----BEGIN PRIVATE KEY----- … "openssl pkcs8 -topk8 -nocrypt" converts other forms.',
  })
    .transform((text) => new Secret(text))
    .optional(),
  /** The `kid` of that key, if the authorization server has several. */
  privateKeyId: TEXT.optional(),
}

/** Parameters that the flow sets itself. */
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

const OPENID_SCOPES = z
  .array(SCOPE)
  .default(['openid'])
  .transform((scopes) => [...new Set(['openid', ...scopes])])

const IDENTITY_PROVIDER = closed({
  ...CLIENT,
  clientId: TEXT,
  /** OpenID Connect issuer at which people sign in and which issues the grants. */
  issuer: ENDPOINT,
  /** Its token endpoint, if that is not in its discovery document. */
  tokenEndpoint: ENDPOINT.optional(),
  /** Default `['openid']`; `offline_access` lets this server renew the access without another sign-in. */
  scopes: OPENID_SCOPES,
})
  .superRefine(checkClientAuth)
  .transform(withClientAuth)

const PROVIDER = closed({
  ...CLIENT,
  /** Absent: this server registers itself, by its metadata document or by dynamic registration. */
  clientId: TEXT.optional(),
  /** Endpoints that are not written below are discovered at the issuer. */
  issuer: ENDPOINT.optional(),
  authorizationEndpoint: ENDPOINT.optional(),
  tokenEndpoint: ENDPOINT.optional(),
  revocationEndpoint: ENDPOINT.optional(),
  /**
   * Where tokens come from: from the consent of people (`authorization_code`), or from this server's own client
   * (`client_credentials`) or workload identity (`jwt_bearer`). Default `authorization_code`.
   */
  grant: z.enum(['authorization_code', 'client_credentials', 'jwt_bearer']).optional(),
  /** For `jwt_bearer`: the file with the workload's JWT, read before each request. */
  assertionFile: TEXT.refine((path) => isAbsolute(path), { error: 'expected an absolute path.' }).optional(),
  /** The company's identity provider, where people sign in; its grants (ID-JAG) are exchanged for tokens of this provider. */
  identityProvider: IDENTITY_PROVIDER.optional(),
  /** Bind tokens to a key of this server (DPoP). Default: only if the server of `resource` asks for it. */
  dpop: z.boolean().optional(),
  /** The scopes that may be requested; a tool that needs another one is refused at the start. Default: any. */
  scopes: z.array(SCOPE).optional(),
  /** Scopes to request every time, for example `offline_access`. */
  alwaysScopes: z.array(SCOPE).default([]),
  /**
   * The resource that the tokens are for (RFC 8707), for example the URL of an MCP server; sent with every request. Without
   * `issuer` and endpoints, the resource itself names its authorization server (RFC 9728).
   */
  resource: ENDPOINT.optional(),
  /** Further parameters for the authorization request, for example `access_type: 'offline'`. */
  parameters: z
    .record(
      TEXT.refine((name) => !RESERVED.includes(name), { error: 'is set by the server itself.' }),
      z.string(),
    )
    .default({}),
})
  .superRefine(checkClientAuth)
  .superRefine((provider, context) => {
    for (const [path, message] of providerProblems(provider))
      context.addIssue({ code: 'custom', path: path === '' ? [] : [path], message })
  })
  .transform(withClientAuth)

interface ProviderParts {
  readonly clientId?: string | undefined
  readonly issuer?: string | undefined
  readonly authorizationEndpoint?: string | undefined
  readonly tokenEndpoint?: string | undefined
  readonly resource?: string | undefined
  readonly grant?: 'authorization_code' | 'client_credentials' | 'jwt_bearer' | undefined
  readonly assertionFile?: string | undefined
  readonly identityProvider?: object | undefined
}

function providerProblems(provider: ProviderParts): readonly (readonly [string, string])[] {
  const { clientId, issuer, authorizationEndpoint, tokenEndpoint, resource } = provider
  const { grant = 'authorization_code', assertionFile, identityProvider } = provider
  const asksPeople = grant === 'authorization_code'
  const needsPage = asksPeople && identityProvider === undefined
  const hasEndpoints = tokenEndpoint !== undefined && (authorizationEndpoint !== undefined || !needsPage)
  const hasOneEndpoint = tokenEndpoint !== undefined || authorizationEndpoint !== undefined
  const isDiscovered = !hasOneEndpoint && (issuer !== undefined || resource !== undefined)
  const found: (readonly [string, string])[] = []
  if (!hasEndpoints && !isDiscovered)
    found.push([
      '',
      needsPage
        ? 'needs `issuer`, or `authorizationEndpoint` and `tokenEndpoint`, or `resource`: an MCP server that names its issuer.'
        : 'needs `issuer`, `tokenEndpoint`, or `resource`: an MCP server that names its issuer.',
    ])
  if (clientId === undefined && (!needsPage || hasOneEndpoint) && grant !== 'jwt_bearer')
    found.push([
      'clientId',
      'is needed: this server can register itself only at an `issuer` where people give their consent.',
    ])
  if (grant === 'jwt_bearer' && assertionFile === undefined)
    found.push(['assertionFile', '`jwt_bearer` needs the file that holds the workload’s JWT.'])
  if (grant !== 'jwt_bearer' && assertionFile !== undefined)
    found.push(['assertionFile', 'can only be used with `grant: "jwt_bearer"`.'])
  if (identityProvider !== undefined && !asksPeople)
    found.push(['identityProvider', 'can only be used if people give their consent; leave out `grant`.'])
  if (identityProvider !== undefined && resource === undefined)
    found.push([
      'resource',
      'is needed with `identityProvider`: the URL of the server that the tokens are for.',
    ])
  return found
}

const SIGN_IN = closed({
  ...CLIENT,
  clientId: TEXT,
  /** OpenID Connect issuer where users sign in. */
  issuer: ENDPOINT,
  /** Default `['openid']`. */
  scopes: OPENID_SCOPES,
  /** The claim that is the user id of calls. Default `sub`. */
  userClaim: TEXT.default('sub'),
  /** By principal, the ids of the users who may consent for the principal itself. */
  owners: z.record(TEXT, z.array(TEXT)).default({}),
})
  .superRefine(checkClientAuth)
  .transform(withClientAuth)

export const CONSOLE_SIGN_IN = closed({
  ...CLIENT,
  clientId: TEXT,
  /** OpenID Connect issuer where people sign in; one of `auth.issuers`, which define who they are and what they may do. */
  issuer: ENDPOINT,
  /** The scopes to request besides `openid`. Default none. */
  scopes: OPENID_SCOPES,
  /** The resource that the access token is for (RFC 8707), if the issuer needs it. Default none. */
  resource: ENDPOINT.optional(),
})
  .superRefine(checkClientAuth)
  .transform(withClientAuth)

interface ClientAuth {
  readonly clientSecret?: Secret | undefined
  readonly privateKey?: Secret | undefined
  readonly clientAuth?: 'basic' | 'post' | 'private_key_jwt' | 'none' | undefined
}

function checkClientAuth(
  { clientSecret, privateKey, clientAuth }: ClientAuth,
  context: z.RefinementCtx,
): void {
  const needsSecret = clientAuth === 'basic' || clientAuth === 'post'
  const problem =
    needsSecret && clientSecret === undefined
      ? '`clientAuth` needs a `clientSecret`.'
      : clientAuth === 'private_key_jwt' && privateKey === undefined
        ? '`clientAuth` needs a `privateKey`.'
        : undefined
  if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
}

function withClientAuth<Client extends ClientAuth>(client: Client) {
  const { clientSecret, privateKey } = client
  const byDefault =
    privateKey !== undefined ? 'private_key_jwt' : clientSecret === undefined ? 'none' : 'basic'
  return { ...client, clientAuth: client.clientAuth ?? byDefault }
}

export const OAUTH = closed({
  /** Providers by the id that tools name in `requirements.authorization`. */
  providers: z.record(TEXT, PROVIDER).default({}),
  /** How users prove who they are before they consent. Without it consent works on loopback only. */
  signIn: SIGN_IN.optional(),
  /** Let anyone with the link consent, without a sign-in and beyond loopback. Default false. */
  allowUnboundConsent: z.boolean().default(false),
})
