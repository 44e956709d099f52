/**
 * The lines that add an OAuth provider to a config. A challenge's page, the warnings at start-up and the console show them, so
 * this module imports nothing.
 */

/** Endpoints from each provider's own documentation. */
const KNOWN_PROVIDERS: Readonly<Record<string, readonly string[]>> = {
  github: [
    "authorizationEndpoint: 'https://github.com/login/oauth/authorize',",
    "tokenEndpoint: 'https://github.com/login/oauth/access_token',",
  ],
  google: [
    "issuer: 'https://accounts.google.com',",
    "parameters: { access_type: 'offline', prompt: 'consent' },",
  ],
  slack: [
    "authorizationEndpoint: 'https://slack.com/oauth/v2/authorize',",
    "tokenEndpoint: 'https://slack.com/api/oauth.v2.access',",
  ],
  microsoft: [
    "authorizationEndpoint: 'https://login.microsoftonline.com/common/oauth2/v2.0/authorize',",
    "tokenEndpoint: 'https://login.microsoftonline.com/common/oauth2/v2.0/token',",
    "alwaysScopes: ['offline_access'],",
  ],
}

/** Text for the config; nothing here reads the environment. */
const ENVIRONMENT = ['process', 'env'].join('.')

const UNKNOWN_PROVIDER = ["issuer: 'https://login.example.com',"]

export function providerLines(id: string): readonly string[] {
  const known = Object.hasOwn(KNOWN_PROVIDERS, id) ? KNOWN_PROVIDERS[id] : undefined
  const name = /^[A-Za-z_$][\w$]*$/.test(id) ? id : JSON.stringify(id)
  const variable = id.toUpperCase().replaceAll(/[^A-Z0-9]+/g, '_')
  return [
    'oauth: {',
    '  providers: {',
    `    ${name}: {`,
    ...(known ?? UNKNOWN_PROVIDER).map((line) => `      ${line}`),
    "      clientId: 'the id of your OAuth app',",
    `      clientSecret: ${ENVIRONMENT}.${variable}_CLIENT_SECRET ?? '',`,
    '    },',
    '  },',
    '},',
  ]
}
