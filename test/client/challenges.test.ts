import { describe, expect, it } from 'vitest'
import { type ClientOptions, connect, type RemoteChallenge } from '#client/index'
import { type RequestHandler, sendJson, startFakeToolServer } from './fake-tool-server.ts'
import { refuse, scriptedFetch, succeed } from './scripted-fetch.ts'

const LIST = {
  items: [
    {
      ...{ id: 'Gmail.GetEmails@1.2.0', name: 'Gmail_GetEmails', description: 'd', version: '1.2.0' },
      requirements: { authorization: [{ id: 'google' }] },
    },
  ],
}
const sleep = async () => undefined

/** Refuses calls until the challenge was polled as completed. */
function withChallenge(states: readonly string[], kind = 'authorization'): RequestHandler {
  const left = [...states]
  let completed = false
  return (request, response) => {
    if (request.path === '/tools') return sendJson(response, 200, LIST)
    if (request.path === '/challenges/c1') {
      const status = left.length > 1 ? left.shift() : left[0]
      completed = status === 'completed'
      return sendJson(response, 200, { status: status ?? 'pending' })
    }
    if (completed) return sendJson(response, 200, { success: true, value: ['mail'] })
    const base = `http://${request.headers.host}`
    const challenge = { id: 'c1', url: `${base}/authorize/c1`, check_url: `${base}/challenges/c1` }
    return sendJson(response, 400, {
      message: 'Please sign in.',
      missing_requirements: { [kind]: [challenge] },
    })
  }
}

function callIds(server: { readonly requests: readonly { readonly path: string; readonly text: string }[] }) {
  return server.requests
    .filter(({ path }) => path === '/tools/call')
    .map(({ text }) => JSON.parse(text).request.call_id)
}

describe('challenges', () => {
  it('OTC-77: are in the failure and passed to onChallenge once', async () => {
    await using server = await startFakeToolServer(withChallenge(['pending']))
    const reported: RemoteChallenge[] = []
    const client = connect(server.url, { onChallenge: (challenge) => void reported.push(challenge) })
    const tried = await client.tryCall('Gmail.GetEmails@1.2.0')
    const challenge = { id: 'c1', url: `${server.url}/authorize/c1`, checkUrl: `${server.url}/challenges/c1` }
    expect(tried).toMatchObject({
      ok: false,
      error: { class: 'authorization_required', message: 'Please sign in.', challenges: [challenge] },
    })
    expect(reported).toEqual([challenge])
  })

  it.each(['authorization', 'approval'])(
    'OTC-78: %s is polled until completed, then the call is sent once more with the same id',
    async (kind) => {
      await using server = await startFakeToolServer(withChallenge(['pending', 'pending', 'completed'], kind))
      const tokens = [undefined, 'fresh']
      const client = connect(server.url, {
        sleep,
        pollChallenges: true,
        requirements: { authorization: () => tokens.shift() },
      })
      const result = await client.call('Gmail.GetEmails@1.2.0')
      expect(result.value).toEqual(['mail'])
      expect(server.requests.filter(({ path }) => path === '/challenges/c1')).toHaveLength(3)
      expect(new Set(callIds(server)).size).toBe(1)
      const last = server.requests.at(-1)?.body.request
      expect(last).toMatchObject({ context: { authorization: [{ id: 'google', token: 'fresh' }] } })
    },
  )

  it('approval_required is a separate class', async () => {
    await using server = await startFakeToolServer(withChallenge(['pending'], 'approval'))
    expect(await connect(server.url).tryCall('Gmail.GetEmails@1.2.0')).toMatchObject({
      ok: false,
      error: { class: 'approval_required', challenges: [{ id: 'c1' }] },
    })
  })

  it.each([
    ['failed', ['pending', 'failed'], 2],
    ['still pending when time is up', ['pending'], 3],
  ])('OTC-78: polling stops when %s, without a retry', async (_title, states, polls) => {
    await using server = await startFakeToolServer(withChallenge(states))
    const options: ClientOptions = { sleep, pollChallenges: true, challengeTimeoutMs: 6_000 }
    const tried = await connect(server.url, options).tryCall('Gmail.GetEmails@1.2.0')
    expect(tried).toMatchObject({ ok: false, error: { class: 'authorization_required' } })
    expect(server.requests.filter(({ path }) => path === '/challenges/c1')).toHaveLength(polls)
    expect(callIds(server)).toHaveLength(1)
  })

  it('OTC-78: a server that asks again after completion is not asked a third time', async () => {
    const base = 'https://tools.example.com'
    const missing = { authorization: [{ id: 'c', url: `${base}/go`, check_url: `${base}/check` }] }
    const refused = refuse(400, { message: 'm', missing_requirements: missing })
    const script = scriptedFetch(LIST.items, refused, refuse(200, { status: 'completed' }), refused)
    const tried = await connect(base, { ...script, pollChallenges: true }).tryCall('Gmail.GetEmails@1.2.0')
    expect(tried).toMatchObject({ ok: false, error: { class: 'authorization_required' } })
    expect(script.requests.map(({ method }) => method)).toEqual(['POST', 'GET', 'POST'])
  })

  it('the key is sent only to a check_url of its own server', async () => {
    const base = 'https://tools.example.com'
    for (const [checkUrl, key] of [
      [`${base}/check`, 'k'],
      ['https://other.example/check', null],
    ] as const) {
      const missing = { authorization: [{ id: 'c', url: `${base}/go`, check_url: checkUrl }] }
      const refused = refuse(400, { message: 'm', missing_requirements: missing })
      const script = scriptedFetch(LIST.items, refused, refuse(200, { status: 'completed' }), succeed(1))
      await connect(base, { ...script, apiKey: 'k', pollChallenges: true }).call('Gmail.GetEmails@1.2.0')
      expect(script.requests[1]?.url).toBe(checkUrl)
      expect(script.requests[1]?.headers.get('OXP-API-Key')).toBe(key)
    }
  })

  it.each([
    ['no check_url', {}],
    ['a plain http check_url elsewhere', { check_url: 'http://169.254.169.254/latest' }],
  ])('with %s nothing is polled', async (_title, extra) => {
    const missing = { authorization: [{ id: 'c', url: 'https://a.example/go', ...extra }] }
    const script = scriptedFetch(LIST.items, refuse(400, { message: 'm', missing_requirements: missing }))
    const client = connect('https://tools.example.com', { ...script, pollChallenges: true })
    expect(await client.tryCall('Gmail.GetEmails@1.2.0')).toMatchObject({ ok: false })
    expect(script.requests).toHaveLength(1)
  })

  it('polling ends when the caller aborts', async () => {
    const caller = new AbortController()
    await using server = await startFakeToolServer((request, response) => {
      if (request.path === '/challenges/c1') caller.abort()
      withChallenge(['pending'])(request, response)
    })
    const client = connect(server.url, { sleep, pollChallenges: true })
    const tried = await client.tryCall('Gmail.GetEmails@1.2.0', {}, { signal: caller.signal })
    expect(tried).toMatchObject({ ok: false, error: { class: 'transport' } })
  })

  it('a callback that fails does not hide the challenge', async () => {
    await using server = await startFakeToolServer(withChallenge(['pending']))
    const onChallenge = () => Promise.reject(new Error('no browser'))
    expect(await connect(server.url, { onChallenge }).tryCall('Gmail.GetEmails@1.2.0')).toMatchObject({
      ok: false,
      error: { class: 'authorization_required', challenges: [{ id: 'c1' }] },
    })
  })
})
