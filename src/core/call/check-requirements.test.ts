import { describe, expect, it } from 'vitest'
import { Secret } from '#core/secret'
import { MemoryStore } from '#store/memory'
import { sampleTool } from '#testing/sample-tool'
import { ALICE, callRequest, errorOf, gist, openTestDesk } from '#testing/test-desk'

const MAIL = 'Mail.Read@1.0.0'
const tool = sampleTool(MAIL, () => 'mail', {
  requirements: {
    authorization: [{ id: 'google', oauth2: { scopes: ['mail.read'] } }],
    secrets: [{ id: 'K' }],
    userId: true,
  },
})
const GIVEN = {
  tokens: new Map([['google', new Secret('token')]]),
  secrets: new Map([['K', new Secret('value')]]),
  userId: 'u',
}

describe('requirements', () => {
  it('OTC-73, OTC-74, OTC-79: everything missing is named at once, with a challenge under our own address', async () => {
    const missing = errorOf(await openTestDesk([tool]).call(ALICE, callRequest(MAIL))).details?.missing
    expect(missing).toEqual({
      authorization: [
        {
          id: expect.any(String),
          url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:4100\/challenges\/[^/]+$/),
          checkUrl: expect.stringMatching(/\/status$/),
        },
      ],
      secrets: [{ id: 'K' }],
      userId: true,
    })
  })

  it('OTC-73: an empty token, and a token for another provider, are no token', async () => {
    const desk = openTestDesk([tool])
    for (const tokens of [new Map([['google', new Secret('')]]), new Map([['github', new Secret('x')]])]) {
      const reply = await desk.call(ALICE, callRequest(MAIL, { ...GIVEN, tokens }))
      expect(Object.keys(errorOf(reply).details?.missing ?? {})).toEqual(['authorization'])
    }
  })

  it('rule 22, OTC-78: the same need keeps its challenge, and a call that brings the token completes it', async () => {
    const store = new MemoryStore()
    const desk = openTestDesk([tool], { store })
    const ask = () => desk.call(ALICE, callRequest(MAIL, { userId: 'u' }))
    const ids = [await ask(), await ask()].map(
      (reply) => errorOf(reply).details?.missing?.authorization?.[0]?.id ?? '',
    )
    expect(ids[0]).toBe(ids[1])
    expect((await desk.findChallenge(ids[0] ?? ''))?.status).toBe('pending')
    expect(gist(await desk.call(ALICE, callRequest(MAIL, GIVEN)))).toBe('ok "mail"')
    expect((await desk.findChallenge(ids[0] ?? ''))?.status).toBe('completed')
  })

  it('T-12: bad input is told before any challenge is made', async () => {
    const store = new MemoryStore()
    const strict = { ...tool, checkInput: () => [{ pointer: '', message: 'no' }] }
    expect(gist(await openTestDesk([strict], { store }).call(ALICE, callRequest(MAIL)))).toBe('input_invalid')
    expect(store.readJournal([], 10)).toEqual([])
  })
})
