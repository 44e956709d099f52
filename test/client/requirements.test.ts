import { describe, expect, it } from 'vitest'
import { connect } from '#client/index'
import { refuse, scriptedFetch, succeed } from './scripted-fetch.ts'

const URL = 'http://127.0.0.1:4100'
const MAIL = {
  ...{ id: 'Gmail.GetEmails@1.2.0', name: 'Gmail_GetEmails', description: 'd', version: '1.2.0' },
  requirements: { authorization: [{ id: 'google', oauth2: { scopes: ['mail'] } }], user_id: true },
}
const SMS = {
  ...{ id: 'SMS.Send@0.1.2', name: 'SMS_Send', description: 'd', version: '0.1.2' },
  requirements: { secrets: [{ id: 'K' }] },
}

describe('requirements', () => {
  it('OTC-50, OTC-51, OTC-52, OTC-53: are resolved before the call and sent in context', async () => {
    const script = scriptedFetch([MAIL], succeed([]))
    const asked: string[] = []
    const client = connect(URL, {
      ...script,
      requirements: {
        authorization: async (id, { scopes }, tool) => {
          asked.push(`${id} ${scopes} ${tool.id} ${script.requests.length}`)
          return 'tok'
        },
        userId: () => 'u',
      },
    })
    await client.call('Gmail.GetEmails')
    expect(asked).toEqual(['google mail Gmail.GetEmails@1.2.0 0'])
    expect(script.requests[0]?.call.context).toEqual({
      authorization: [{ id: 'google', token: 'tok' }],
      user_id: 'u',
    })
  })

  it('OTC-49: a tool without requirements gets no context', async () => {
    const script = scriptedFetch([{ ...SMS, requirements: {} }], succeed(null))
    await connect(URL, { ...script, requirements: { secrets: () => 'v', userId: () => 'u' } }).call(
      'SMS.Send',
    )
    expect(script.requests[0]?.call).not.toHaveProperty('context')
  })

  it("the caller's user id takes precedence over the resolver, and is sent even if not required", async () => {
    const script = scriptedFetch([MAIL, SMS], succeed(null))
    const client = connect(URL, { ...script, requirements: { userId: () => 'resolver', secrets: () => 'v' } })
    await client.call('Gmail.GetEmails@1.2.0', {}, { userId: 'caller' })
    await client.call('SMS.Send@0.1.2', {}, { userId: 'caller' })
    expect(script.requests.map(({ call }) => call.context)).toEqual([
      { user_id: 'caller' },
      { user_id: 'caller', secrets: [{ id: 'K', value: 'v' }] },
    ])
  })

  it.each([
    [
      'a token',
      MAIL.id,
      { authorization: [{ id: 'c', url: 'https://a.example/go' }] },
      'authorization_required',
    ],
    ['a secret', SMS.id, { secrets: [{ id: 'K' }] }, 'requirements'],
    ['a user id', MAIL.id, { user_id: true }, 'requirements'],
  ] as const)(
    'OTC/T-32: without %s the call is sent, because the server may have it, and its answer decides',
    async (_title, id, missing_requirements, kind) => {
      const script = scriptedFetch([MAIL, SMS], refuse(400, { message: 'm', missing_requirements }))
      const tried = await connect(URL, { ...script, requirements: { secrets: () => '' } }).tryCall(id)
      expect(tried).toMatchObject({ ok: false, error: { class: kind, message: 'm' } })
      expect(script.requests).toHaveLength(1)
      expect(script.requests[0]?.call).not.toHaveProperty('context')
    },
  )

  it.each([
    ['a secret', SMS.id, {}, { secrets: ['K'] }],
    ['an empty secret', SMS.id, { requirements: { secrets: () => '' } }, { secrets: ['K'] }],
    ['a user id', MAIL.id, {}, { userId: true }],
    ['a token', MAIL.id, { requirements: { userId: () => 'u' } }, {}],
  ] as const)(
    'T-32: without %s nothing is sent, if the options say so',
    async (_title, id, options, missing) => {
      const script = scriptedFetch([MAIL, SMS], succeed(null))
      const tried = await connect(URL, { ...script, ...options, missingRequirements: 'refuse' }).tryCall(id)
      expect(tried).toMatchObject({ ok: false, error: { class: 'requirements', missing } })
      expect(script.requests).toEqual([])
    },
  )

  it('a resolver that throws sends nothing, and its text stays in the cause', async () => {
    const script = scriptedFetch([SMS], succeed(null))
    const secrets = () => {
      throw new Error('vault said hunter2')
    }
    const tried = await connect(URL, { ...script, requirements: { secrets } }).tryCall(SMS.id)
    expect(tried).toMatchObject({ ok: false, error: { class: 'requirements' } })
    expect(JSON.stringify(tried)).not.toContain('hunter2')
    expect(script.requests).toEqual([])
  })

  it('a resolver that never answers ends when the caller aborts', async () => {
    const caller = new AbortController()
    const script = scriptedFetch([SMS], succeed(null))
    const secrets = () => {
      caller.abort()
      return new Promise<string>(() => undefined)
    }
    const client = connect(URL, { ...script, requirements: { secrets } })
    expect(await client.tryCall(SMS.id, {}, { signal: caller.signal })).toMatchObject({
      ok: false,
      error: { class: 'transport' },
    })
  })
})
