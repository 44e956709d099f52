import { ToolError } from 'collet'
import { afterEach, describe, expect, it } from 'vitest'
import { contextWith, type LocalService, replyJson, startLocalService } from './local-service.ts'
import { type SmsOptions, smsTools } from './sms.ts'

const CONTEXT = contextWith({ TWILIO_API_KEY: 'AC123:tw-s3cret' })
const INPUT = { to: '+5556051234567', message: 'Hello & goodbye' }

describe('SMS.Send', () => {
  let service: LocalService | undefined
  afterEach(() => service?.close())

  const send = async (options: SmsOptions, context = CONTEXT) => {
    const [tool] = smsTools({ from: '+15550001111', ...options })
    return await tool?.run(INPUT, context)
  }
  const start = async (...answer: Parameters<typeof startLocalService>) => {
    service = await startLocalService(...answer)
    return service
  }

  it('posts the form that Twilio documents, and returns its status', async () => {
    const { url, requests } = await start((_, response) =>
      replyJson(response, 201, { sid: 'SM1', status: 'queued' }),
    )
    expect(await send({ baseUrl: url })).toEqual({ status: 'queued' })
    expect(requests).toHaveLength(1)
    expect(requests[0]).toMatchObject({ method: 'POST', path: '/2010-04-01/Accounts/AC123/Messages.json' })
    expect(requests[0]?.headers['content-type']).toContain('application/x-www-form-urlencoded')
    expect(requests[0]?.headers.authorization).toBe(
      `Basic ${Buffer.from('AC123:tw-s3cret').toString('base64')}`,
    )
    expect(Object.fromEntries(new URLSearchParams(requests[0]?.body))).toEqual({
      To: '+5556051234567',
      From: '+15550001111',
      Body: 'Hello & goodbye',
    })
  })

  it.each([
    ['SK9:secret', 'SK9:secret'],
    ['token-alone', 'AC777:token-alone'],
  ])('takes the secret %s with a configured account', async (secret, sent) => {
    const { url, requests } = await start((_, response) => replyJson(response, 201, { status: 'queued' }))
    await send({ baseUrl: url, accountSid: 'AC777' }, contextWith({ TWILIO_API_KEY: secret }))
    expect(requests[0]?.path).toBe('/2010-04-01/Accounts/AC777/Messages.json')
    expect(requests[0]?.headers.authorization).toBe(`Basic ${Buffer.from(sent).toString('base64')}`)
  })

  it.each<[string, SmsOptions, string]>([
    ['tw-s3cret', {}, 'The Twilio credential is incomplete.'],
    ['AC1:tw-s3cret', { from: undefined }, 'Sending SMS is not set up on this server.'],
  ])('reports what is missing and sends nothing: %s', async (secret, options, message) => {
    const { url, requests } = await start((_, response) => replyJson(response, 201, { status: 'queued' }))
    const error = await failureOf(send({ baseUrl: url, ...options }, contextWith({ TWILIO_API_KEY: secret })))
    expect(error.message).toBe(message)
    expect(error.developerMessage).not.toContain('tw-s3cret')
    expect(requests).toHaveLength(0)
  })

  it.each<[number, boolean]>([
    [400, false],
    [401, false],
    [404, false],
    [408, false],
    [429, true],
    [500, false],
    [502, false],
    [503, true],
    [504, false],
  ])('rule 9: after a %i the call may be retried: %s', async (status, canRetry) => {
    const { url } = await start((_, response) =>
      replyJson(response, status, { code: 20_001, message: 'No.' }),
    )
    const error = await failureOf(send({ baseUrl: url }))
    expect(error.canRetry).toBe(canRetry)
    expect(error.developerMessage).toBe(`Twilio answered ${status}: 20001 No.`)
    expect(error.message).not.toContain('No.')
  })

  it('rule 9: a connection that was never made may be retried', async () => {
    const { url, close } = await start(() => undefined)
    await close()
    expect(await failureOf(send({ baseUrl: url }))).toMatchObject({
      message: 'Twilio cannot be reached right now.',
      canRetry: true,
    })
  })

  it('rule 9: a connection that breaks after the request may have sent the message', async () => {
    const { url } = await start((_, response) => response.destroy())
    const error = await failureOf(send({ baseUrl: url }))
    expect(error.canRetry).toBe(false)
    expect(error.message).toContain('Check there before trying again.')
  })

  it('rule 9: an answer that breaks off, or is no JSON, may have sent the message', async () => {
    const cut = await start((_, response) => {
      response.writeHead(201, { 'content-length': '100' })
      response.write('{"sta', () => response.destroy())
    })
    expect((await failureOf(send({ baseUrl: cut.url }))).canRetry).toBe(false)
    await cut.close()
    const page = await start((_, response) => response.writeHead(201).end('<html>'))
    expect((await failureOf(send({ baseUrl: page.url }))).canRetry).toBe(false)
  })

  it('leaves a timeout or cancel to the server that requests for it', async () => {
    const controller = new AbortController()
    const { url } = await start(() => controller.abort(new Error('time is up')))
    const context = contextWith({ TWILIO_API_KEY: 'AC1:x' }, controller.signal)
    await expect(send({ baseUrl: url }, context)).rejects.toThrow('time is up')
  })
})

async function failureOf(run: Promise<unknown>): Promise<ToolError> {
  const error = await run.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error instanceof ToolError) return error
  throw new Error('the tool did not fail with a ToolError', { cause: error })
}
