import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import Provider from 'oidc-provider'
import { vi } from 'vitest'

export const CLIENT_SECRET = 'client-secret-of-the-tests-0123456789'

export interface AuthorizationServerOptions {
  readonly accessTokenSeconds?: number
  readonly rotate?: boolean
  /** A token request for this resource gets a JWT with these scopes. */
  readonly resource?: { readonly uri: string; readonly scope: string }
  /** Registers clients that ask for it (RFC 7591). */
  readonly registration?: boolean
  /** Issues tokens that are bound to a key to clients that prove one (RFC 9449). */
  readonly dpop?: boolean
  /** The public key of the client `machine`, which gets tokens of its own. */
  readonly machineKey?: object
  /** Claims of id tokens besides `sub`. */
  readonly claims?: Readonly<Record<string, unknown>>
}

/** A real authorization server on loopback; the last login name is the subject. */
export interface TestAuthorizationServer extends AsyncDisposable {
  readonly issuer: string
  /** `METHOD /path` of every request so far. */
  readonly requests: readonly string[]
  /** The headers of every request so far, as JSON. */
  readonly headers: readonly string[]
  /** Runs before each request is answered; `true` means that it has sent the answer. */
  intercept: ((request: IncomingMessage, ...rest: Parameters<RequestListener>) => boolean) | undefined
  tokenRequests(): number
}

export async function startAuthorizationServer(
  options: AuthorizationServerOptions = {},
): Promise<TestAuthorizationServer> {
  const requests: string[] = []
  const headers: string[] = []
  let callback: RequestListener = (_request, response) => response.destroy()
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${(request.url ?? '').split('?')[0]}`)
    headers.push(JSON.stringify([request.url, request.headers]))
    if (made.intercept?.(request, request, response) === true) return
    callback(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const issuer = `http://127.0.0.1:${port}`
  // The package prints long warnings about its test configuration.
  const spies = [vi.spyOn(console, 'warn'), vi.spyOn(console, 'info')].map((spy) =>
    spy.mockImplementation(() => {}),
  )
  callback = new Provider(issuer, configuration(options)).callback()
  for (const spy of spies) spy.mockRestore()
  const made: TestAuthorizationServer = {
    issuer,
    requests,
    headers,
    intercept: undefined,
    tokenRequests: () => requests.filter((line) => line === 'POST /token').length,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return made
}

function configuration(options: AuthorizationServerOptions): object {
  const { accessTokenSeconds = 3_600, rotate = true, resource, claims = {} } = options
  return {
    clients: [
      {
        client_id: 'collet',
        client_secret: CLIENT_SECRET,
        application_type: 'native',
        redirect_uris: ['http://127.0.0.1/oauth/callback', 'http://127.0.0.1/console/sign-in/callback'],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
      },
      {
        client_id: 'machine',
        ...(options.machineKey === undefined
          ? { client_secret: CLIENT_SECRET }
          : {
              token_endpoint_auth_method: 'private_key_jwt',
              token_endpoint_auth_signing_alg: 'ES256',
              jwks: { keys: [options.machineKey] },
            }),
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      },
    ],
    clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'private_key_jwt', 'none'],
    scopes: ['openid', 'offline_access', 'mail.read', 'mail.send'],
    features: {
      devInteractions: { enabled: true },
      revocation: { enabled: true, allowedPolicy: () => true },
      clientCredentials: { enabled: true },
      registration: { enabled: options.registration === true },
      dPoP: { enabled: options.dpop === true },
      ...(resource === undefined ? {} : { resourceIndicators: indicatorsOf(resource, accessTokenSeconds) }),
    },
    claims: { openid: ['sub', ...Object.keys(claims)] },
    conformIdTokenClaims: false,
    ttl: {
      AccessToken: accessTokenSeconds,
      AuthorizationCode: 60,
      Grant: 3_600,
      IdToken: 600,
      Interaction: 600,
      RefreshToken: 3_600,
      Session: 3_600,
    },
    rotateRefreshToken: rotate,
    cookies: { keys: ['cookie-key-of-the-tests'] },
    findAccount: (_context: unknown, sub: string) => ({ accountId: sub, claims: () => ({ sub, ...claims }) }),
  }
}

function indicatorsOf(
  { uri, scope }: NonNullable<AuthorizationServerOptions['resource']>,
  accessTokenTTL: number,
): object {
  const jwt = { sign: { alg: 'RS256' } }
  return {
    enabled: true,
    getResourceServerInfo: () => ({ scope, audience: uri, accessTokenFormat: 'jwt', accessTokenTTL, jwt }),
    useGrantedResource: () => true,
  }
}
