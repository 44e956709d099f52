import { ToolError } from 'collet'
import { afterEach, describe, expect, it } from 'vitest'
import { gmailTools } from './gmail.ts'
import { contextWith, type LocalService, replyJson, startLocalService } from './local-service.ts'

const CONTEXT = contextWith({ google: 'ya29.tok' })

describe('Gmail.GetEmails', () => {
  let service: LocalService | undefined
  afterEach(() => service?.close())

  const start = async (...answer: Parameters<typeof startLocalService>) => {
    service = await startLocalService(...answer)
    const [getEmails] = gmailTools({ baseUrl: `${service.url}/` })
    if (getEmails === undefined) throw new Error('no tool')
    return { getEmails, requests: service.requests }
  }

  it('searches, then reads the subject and snippet of each message', async () => {
    const { getEmails, requests } = await start(({ path }, response) => {
      if (path === '/gmail/v1/users/me/messages') {
        return replyJson(response, 200, {
          messages: [{ id: 'm1', threadId: 't' }, { id: 'm2' }],
          resultSizeEstimate: 2,
        })
      }
      const id = path.split('/').at(-1)
      const headers = id === 'm1' ? [{ name: 'Subject', value: 'Hello' }] : []
      return replyJson(response, 200, { id, snippet: `About ${id}`, payload: { headers } })
    })
    expect(await getEmails.run({ query: 'is:unread from:bob' }, CONTEXT)).toEqual({
      emails: [
        { id: 'm1', subject: 'Hello', snippet: 'About m1' },
        { id: 'm2', subject: '', snippet: 'About m2' },
      ],
    })
    expect(requests[0]?.query.get('q')).toBe('is:unread from:bob')
    expect(requests[1]?.query.toString()).toBe('format=metadata&metadataHeaders=Subject')
    for (const { method, headers } of requests) {
      expect(method).toBe('GET')
      expect(headers.authorization).toBe('Bearer ya29.tok')
    }
  })

  it('gives an empty list for an empty mailbox, and sends no empty query', async () => {
    const { getEmails, requests } = await start((_, response) =>
      replyJson(response, 200, { resultSizeEstimate: 0 }),
    )
    expect(await getEmails.run({}, CONTEXT)).toEqual({ emails: [] })
    expect(requests[0]?.query.has('q')).toBe(false)
  })

  it('T-17: a token that Google refuses is a failure without retry, and its text stays with developers', async () => {
    const { getEmails } = await start((_, response) =>
      replyJson(response, 401, { error: { code: 401, message: 'Invalid Credentials' } }),
    )
    const error = await failureOf(getEmails.run({}, CONTEXT))
    expect(error).toMatchObject({
      message: 'Gmail did not accept the credential.',
      developerMessage: 'Gmail answered 401: Invalid Credentials',
      canRetry: false,
    })
  })

  it('rule 9: a refusal for load may be retried, after the time it asks for', async () => {
    const { getEmails } = await start((_, response) => replyJson(response, 429, {}, { 'retry-after': '7' }))
    expect(await failureOf(getEmails.run({}, CONTEXT))).toMatchObject({ canRetry: true, retryAfterMs: 7000 })
  })

  it('does not follow a redirect with the token', async () => {
    const { getEmails, requests } = await start((_, response) => {
      response.writeHead(302, { location: '/elsewhere' }).end()
    })
    expect(await failureOf(getEmails.run({}, CONTEXT))).toMatchObject({ canRetry: false })
    expect(requests).toHaveLength(1)
  })

  it('passes on the error of a denied request unchanged', async () => {
    const { getEmails } = await start((_, response) => response.end())
    const denied = Object.assign(new ToolError('Not reached.'), { code: 'egress_denied' })
    const context = { ...CONTEXT, fetch: () => Promise.reject(denied) }
    expect(await failureOf(getEmails.run({}, context))).toBe(denied)
  })

  it('fails if the answer has an unexpected form', async () => {
    const { getEmails } = await start((_, response) => replyJson(response, 200, { messages: 'none' }))
    expect(await failureOf(getEmails.run({}, CONTEXT))).toMatchObject({ canRetry: false })
  })
})

async function failureOf(run: unknown): Promise<ToolError> {
  const error = await Promise.resolve(run).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error instanceof ToolError) return error
  throw new Error('the tool did not fail with a ToolError', { cause: error })
}
