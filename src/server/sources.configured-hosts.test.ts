import { expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { configuredHosts } from './sources.ts'

it('rule 33: lists only hosts in the config of the operator, with their ports', () => {
  const issuer = {
    issuer: 'https://login.example.com',
    jwksUri: 'http://127.0.0.1:9000/keys',
    audiences: ['a'],
    claims: { tenant: undefined, scopes: undefined, roles: undefined },
    tenant: 'default',
    algorithms: undefined,
  }
  const hook = {
    url: 'http://[::1]:7000/hook',
    secret: new Secret('s'.repeat(32)),
    approver: undefined,
    target: 'hook',
    format: 'json' as const,
    ...{ name: 'hook', events: ['*'], kinds: new Set<never>() },
  }
  const hosts = configuredHosts({
    auth: { apiKeys: [], jwt: undefined, issuers: [issuer] },
    oauth: { providers: {}, signIn: undefined, allowUnboundConsent: false },
    webhooks: [hook],
  })
  expect(hosts).toEqual(['login.example.com:443', '127.0.0.1:9000', '[::1]:7000'])
})
