import { describe, expect, it } from 'vitest'
import { StoreError } from '#kernel/base/errors'
import { Secret } from '#kernel/base/secret'
import { NO_BROKER } from '#kernel/base/token-broker'
import type { Store } from '#store/collet-store'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, errorOf, gist, openTestGateway } from '#testing/test-gateway'
import { sampleTool } from '../../../test/contracts/samples.ts'
import { packToken } from './credentials.ts'

const MAIL = 'Mail.Read@1.0.0'
const tool = sampleTool(MAIL, () => 'mail', {
  requirements: {
    authorization: [{ id: 'google', oauth2: { scopes: ['mail.read'] } }],
    secrets: [{ id: 'K' }],
    userId: 'claimed',
  },
})
const GIVEN = {
  tokens: new Map([['google', new Secret('token')]]),
  secrets: new Map([['K', new Secret('value')]]),
  userId: 'u',
}

describe('requirements', () => {
  it('OTC-73, OTC-74, OTC-79: all missing credentials are listed together, with a challenge on this server', async () => {
    const missing = errorOf(await openTestGateway([tool]).call(ALICE, callRequest(MAIL))).details?.missing
    expect(missing).toEqual({
      authorization: [
        {
          id: expect.any(String),
          url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:4100\/challenges\/[^/]+$/),
          checkUrl: expect.stringMatching(/\/status$/),
          provider: 'google',
          scopes: ['mail.read'],
        },
      ],
      secrets: [{ id: 'K' }],
      userId: true,
    })
  })

  it('OTC-73: an empty token, and a token for another provider, do not count', async () => {
    const gateway = openTestGateway([tool])
    for (const tokens of [new Map([['google', new Secret('')]]), new Map([['github', new Secret('x')]])]) {
      const reply = await gateway.call(ALICE, callRequest(MAIL, { ...GIVEN, tokens }))
      expect(Object.keys(errorOf(reply).details?.missing ?? {})).toEqual(['authorization'])
    }
  })

  it('rule 22, OTC-78: the same need keeps its challenge, and a call with the token completes it', async () => {
    const store = openMemoryStore()
    const gateway = openTestGateway([tool], { store })
    const ask = () => gateway.call(ALICE, callRequest(MAIL, { userId: 'u' }))
    const ids = [await ask(), await ask()].map(
      (reply) => errorOf(reply).details?.missing?.authorization?.[0]?.id ?? '',
    )
    expect(ids[0]).toBe(ids[1])
    expect((await gateway.findChallenge(ids[0] ?? ''))?.status).toBe('pending')
    expect(gist(await gateway.call(ALICE, callRequest(MAIL, GIVEN)))).toBe('ok "mail"')
    expect((await gateway.findChallenge(ids[0] ?? ''))?.status).toBe('completed')
  })

  it('T-12: invalid input is reported before any challenge is opened', async () => {
    const store = openMemoryStore()
    const strict = { ...tool, checkInput: () => [{ pointer: '', message: 'no' }] }
    expect(gist(await openTestGateway([strict], { store }).call(ALICE, callRequest(MAIL)))).toBe(
      'input_invalid',
    )
    expect(store.readJournal([], 10)).toEqual([])
  })
})

describe('credentials that are sent', () => {
  it('are limited to a hundred, because each is searched for in every text of the call', async () => {
    const gateway = openTestGateway([sampleTool(MAIL, () => 'mail')])
    const secrets = (count: number) =>
      new Map(Array.from({ length: count }, (_, index) => [`s${index}`, new Secret(`value-${index}`)]))
    expect(gist(await gateway.call(ALICE, callRequest(MAIL, { secrets: secrets(100) })))).toBe('ok "mail"')
    expect(gist(await gateway.call(ALICE, callRequest(MAIL, { secrets: secrets(101) })))).toBe(
      'request_invalid',
    )
  })
})

describe('requirements and the vault', () => {
  const seen: string[] = []
  const leaky = sampleTool(
    MAIL,
    (_input, context) => {
      seen.push(context.token('google').reveal(), context.secret('K').reveal())
      return 'mail'
    },
    {
      requirements: {
        authorization: [{ id: 'google', oauth2: { scopes: ['mail.read'] } }],
        secrets: [{ id: 'K' }],
      },
    },
  )
  const forUsers = sampleTool('Users.Mail@1.0.0', () => 'mail', {
    requirements: { authorization: [{ id: 'google', oauth2: { scopes: ['mail.send'] } }], userId: 'claimed' },
  })
  const AT = { tenant: 'default', principal: ALICE.id, user: '' }

  async function filledStore(scopes: readonly string[] = ['mail.read', 'mail.send']): Promise<Store> {
    const store = openMemoryStore()
    const at = { ...AT, expiresAtMs: undefined, by: 'cli:ann', atMs: 0 }
    const value = packToken({ accessToken: new Secret('vault-token'), refreshToken: undefined })
    await store.vault.put({ ...at, provider: 'google', kind: 'token', ref: 'r1', value, scopes })
    await store.vault.put({
      ...at,
      provider: 'K',
      kind: 'secret',
      ref: 'r2',
      value: new Secret('vault-secret'),
      scopes: [],
    })
    return store
  }

  it('OTC-73, OTC-74: the vault adds the credentials that the caller did not send, and no others', async () => {
    const gateway = openTestGateway([leaky], { store: await filledStore() })
    seen.length = 0
    await gateway.call(ALICE, callRequest(MAIL))
    await gateway.call(ALICE, callRequest(MAIL, { tokens: new Map([['google', new Secret('sent-token')]]) }))
    await gateway.call(ALICE, callRequest(MAIL, { secrets: new Map([['K', new Secret('sent-secret')]]) }))
    expect(seen).toEqual([
      'vault-token',
      'vault-secret',
      'sent-token',
      'vault-secret',
      'vault-token',
      'sent-secret',
    ])
  })

  it('a tool gets only the credentials that it declares', async () => {
    const undeclared = sampleTool('Nosy.Look@1.0.0', (_input, context) => context.secret('K').reveal())
    const reply = await openTestGateway([undeclared], { store: await filledStore() }).call(
      ALICE,
      callRequest('Nosy.Look@1.0.0'),
    )
    expect(errorOf(reply).message).toContain('did not declare')
  })

  it('OWP-76: each problem has its own code', async () => {
    const problemOf = async (store: Store, changes: Parameters<typeof callRequest>[1] = {}, hooks = {}) =>
      errorOf(await openTestGateway([leaky], { store, hooks }).call(ALICE, callRequest(MAIL, changes)))
        .developerMessage
    expect(await problemOf(openMemoryStore())).toContain('credential_not_found')
    expect(await problemOf(await filledStore(['mail.send']))).toContain('credential_scope_unsupported')
    expect(await problemOf(await filledStore(), { userId: 'u' })).toContain('credential_forbidden')
    expect(await problemOf(await filledStore(), {}, { verifyToken: () => false })).toContain(
      'credential_required',
    )
    const spent = await filledStore()
    const entry = await spent.vault.find({ ...AT, provider: 'google', kind: 'token' })
    if (entry !== undefined) await spent.vault.spend(entry, 1)
    expect(await problemOf(spent)).toContain('connector_auth_expired')
  })

  it('an invalid token that was sent is not replaced by the one in the vault', async () => {
    const hooks = { verifyToken: ({ token }: { readonly token: Secret }) => token.reveal() !== 'bad' }
    const gateway = openTestGateway([leaky], { store: await filledStore(), hooks })
    const bad = callRequest(MAIL, { tokens: new Map([['google', new Secret('bad')]]) })
    expect(gist(await gateway.call(ALICE, bad))).toBe('requirement_missing')
    expect(gist(await gateway.call(ALICE, callRequest(MAIL)))).toBe('ok "mail"')
  })

  it('rule 14: an entry that cannot be read is an error, and opens no challenge', async () => {
    const store = await filledStore()
    store.vault.find = () => {
      throw new StoreError('unreadable', 'damaged')
    }
    const reply = await openTestGateway([leaky], { store }).call(ALICE, callRequest(MAIL))
    expect(errorOf(reply)).toMatchObject({
      code: 'internal',
      message: expect.stringContaining('cannot be read'),
    })
    const groups = await store.readJournal([], 10)
    const types = groups.flatMap(({ events }) => events.map(({ type }) => type))
    expect(types).not.toContain('challenge.opened')
  })

  it('rule 25: only a challenge for which a person can be asked has `consent`', async () => {
    const broker = {
      ...NO_BROKER,
      obstacle: (provider: string) => (provider === 'google' ? undefined : ('no_provider' as const)),
    }
    const gateway = openTestGateway([leaky], { broker })
    const consentOf = async (principal: typeof ALICE, userId?: string) => {
      const reply = await gateway.call(principal, callRequest(MAIL, { userId }))
      const [challenge] = errorOf(reply).details?.missing?.authorization ?? []
      return (await gateway.findChallenge(challenge?.id ?? ''))?.consent
    }
    expect(await consentOf(ALICE)).toBe(true)
    expect(await consentOf(ALICE, 'u')).toBeUndefined()
    expect(await consentOf({ ...ALICE, id: 'key:bob', scopes: ['users:assert'] }, 'u')).toBe(true)
    expect(await consentOf({ ...ALICE, id: 'anonymous' })).toBeUndefined()
  })

  it('rule 24: a token for a user does not complete the challenge of the principal itself', async () => {
    const gateway = openTestGateway([leaky, forUsers], {
      broker: { ...NO_BROKER, obstacle: () => undefined },
    })
    const asked = async (id: string) => {
      const reply = await gateway.call(ALICE, callRequest(id))
      const [challenge] = errorOf(reply).details?.missing?.authorization ?? []
      return async () => await gateway.findChallenge(challenge?.id ?? '')
    }
    const tokens = new Map([['google', new Secret('t')]])
    const secrets = new Map([['K', new Secret('s')]])
    const own = await asked(MAIL)
    await gateway.call(ALICE, callRequest(MAIL, { userId: 'u', tokens, secrets }))
    expect(await own()).toMatchObject({ status: 'pending', consent: true })
    const late = await asked(forUsers.id)
    expect(await late()).toMatchObject({ status: 'pending' })
    expect((await late())?.consent).toBeUndefined()
    await gateway.call(ALICE, callRequest(forUsers.id, { userId: 'u', tokens }))
    expect(await late()).toMatchObject({ status: 'completed' })
  })
})
