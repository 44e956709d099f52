import { describe, expect, it } from 'vitest'
import { tool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { Tool } from '#kernel/tool/tool'
import { ConfigError, parseConfig } from './load.ts'
import { checkAgainstTools } from './to-settings.ts'

const FILE = '/p/collet.config.ts'
const CLIENT = { clientId: 'id', clientSecret: 'client-secret-text' }
const ENDPOINTS = {
  authorizationEndpoint: 'https://a.example/authorize',
  tokenEndpoint: 'https://a.example/token',
}

function problemsOf(oauth: unknown): readonly string[] {
  try {
    parseConfig({ oauth }, FILE)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ where, message }) => `${where}: ${message}`)
  }
}

const toolFor = (id: string, scopes: string[]) =>
  requireTools([
    tool({
      id: 'Repo.List@1.0.0',
      description: 'Lists.',
      input: { type: 'object' },
      output: { type: 'string' },
      requirements: { authorization: [{ id, oauth2: { scopes } }] },
      run: () => 'x',
    }),
  ])

describe('oauth in a config', () => {
  it('accepts an issuer unchanged, or endpoints', () => {
    const { oauth } = parseConfig(
      {
        oauth: {
          providers: { a: { ...CLIENT, issuer: 'https://a.example/' }, b: { clientId: 'id', ...ENDPOINTS } },
        },
      },
      FILE,
    )
    const { providers, signIn } = oauth
    expect(providers.a).toMatchObject({ issuer: 'https://a.example/', clientAuth: 'basic', alwaysScopes: [] })
    expect(providers.b).toMatchObject({ clientAuth: 'none' })
    expect(providers.b?.clientSecret).toBeUndefined()
    expect(signIn).toBeUndefined()
    expect(JSON.stringify(providers)).not.toContain('client-secret-text')
  })

  it.each([
    [
      'no issuer and no endpoints',
      { ...CLIENT },
      'oauth.providers.x: needs `issuer`, or `authorizationEndpoint` and `tokenEndpoint`, or `resource`',
    ],
    [
      'only one endpoint',
      { ...CLIENT, tokenEndpoint: 'https://a.example/t' },
      'oauth.providers.x: needs `issuer`',
    ],
    [
      'plain http',
      { ...CLIENT, issuer: 'http://a.example' },
      'oauth.providers.x.issuer: expected an https URL',
    ],
    [
      'a name that only looks like loopback',
      { ...CLIENT, issuer: 'http://127.0.0.1.evil.example' },
      'oauth.providers.x.issuer: expected an https URL',
    ],
    [
      'a password in a URL',
      { ...CLIENT, issuer: 'https://u:p@a.example' },
      'oauth.providers.x.issuer: expected an https URL',
    ],
    [
      'a script',
      { ...CLIENT, issuer: 'javascript:alert(1)' },
      'oauth.providers.x.issuer: expected an https URL',
    ],
    [
      'a secret that is missing',
      { clientId: 'id', clientAuth: 'post', ...ENDPOINTS },
      'oauth.providers.x: `clientAuth` needs a `clientSecret`.',
    ],
    [
      'a scope with a space',
      { ...CLIENT, ...ENDPOINTS, scopes: ['a b'] },
      'oauth.providers.x.scopes[0]: expected one scope',
    ],
    [
      'a parameter that the server sets',
      { ...CLIENT, ...ENDPOINTS, parameters: { redirect_uri: 'https://evil.example' } },
      'oauth.providers.x.parameters.redirect_uri: ',
    ],
    ['an unknown key', { ...CLIENT, ...ENDPOINTS, secret: 's' }, 'oauth.providers.x: unknown key "secret".'],
  ])('refuses %s', (_title, provider, problem) => {
    expect(problemsOf({ providers: { x: provider } }).join('\n')).toContain(problem)
  })

  it('OWP-79: refuses a tool with a misspelled provider, or with a scope that may not be requested', () => {
    const config = parseConfig(
      { oauth: { providers: { github: { ...CLIENT, ...ENDPOINTS, scopes: ['repo'] } } } },
      FILE,
    )
    const check = (tools: readonly Tool[]) => () => checkAgainstTools({ config, file: FILE }, tools)
    expect(check(toolFor('gihub', []))).toThrow(/oauth_provider_unsupported: "gihub"/)
    expect(check(toolFor('github', ['admin']))).toThrow(/oauth_scope_unsupported: .*admin/)
    expect(check(toolFor('github', ['repo']))).not.toThrow()
    expect(check(toolFor('salesforce', ['x']))).not.toThrow()
  })
})
