import { rmSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { tool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { startServer } from '#server/start-server'
import { createLog } from '#server/telemetry/log'
import { testSettings } from '../test-settings.ts'
import { httpSend } from './http-send.ts'

const MAILER = 'key-of-the-mailer-0123456789abcdef'
const READER = 'key-of-the-reader-0123456789abcdef'

const TOOLS = [
  { id: 'Mail.Send@1.0.0', name: 'send', scopes: ['mail:send'] },
  { id: 'Mail.Read@1.0.0', name: 'read', scopes: ['mail:read'] },
  { id: 'Clock.Now@1.0.0', name: 'now', scopes: [] },
].map(({ scopes, ...named }) =>
  tool({
    ...named,
    description: 'Says its own name.',
    input: { type: 'object' },
    output: { type: 'string' },
    policy: { scopes },
    run: () => named.name,
  }),
)

/** A server with two keys of different scopes, and everything it logs. */
async function startClosedServer() {
  const logged: string[] = []
  const apiKeys = [
    { id: 'mailer', key: new Secret(MAILER), tenant: 'default', scopes: ['mail:*'] },
    { id: 'reader', key: new Secret(READER), tenant: 'default', scopes: ['mail:read'] },
  ]
  const settings = testSettings({ tools: requireTools(TOOLS), auth: { apiKeys, jwt: undefined } })
  const log = createLog('debug', { write: (line: string) => void logged.push(line) })
  const server = await startServer(settings, { graceMs: 0, log })
  const send = httpSend(server.url)
  const authorized = (key: string) => ({
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
  })
  return {
    logged,
    load: (key: string) =>
      send({ method: 'GET', path: '/opentool/load', headers: authorized(key), body: undefined }),
    call: (key: string, method: string) =>
      send({
        method: 'POST',
        path: '/opentool/call',
        headers: authorized(key),
        body: JSON.stringify({ jsonrpc: '2.0', method, id: 'c1' }),
      }),
    async [Symbol.asyncDispose]() {
      await server.close()
      rmSync(settings.dataFolder, { recursive: true })
    },
  }
}

describe('permissions of a key', () => {
  it('OTS-40, OTS-47: a function beyond its scopes answers like an unknown one', async () => {
    await using server = await startClosedServer()
    expect(JSON.parse((await server.call(MAILER, 'send')).text).result).toEqual({ result: 'send' })
    const hidden = await server.call(READER, 'send')
    const unknown = await server.call(READER, 'nope')
    const blanked = ({ text, headers }: typeof hidden, name: string) =>
      text.replaceAll(name, 'NAME').replaceAll(headers['collet-call-id'] ?? '?', 'ID')
    expect(blanked(hidden, 'send')).toBe(blanked(unknown, 'nope'))
    expect([hidden.status, JSON.parse(hidden.text).error]).toMatchObject([
      200,
      { code: 405, message: 'Function Not Supported: send' },
    ])
  })

  it('OTS-44: the document has the functions of the caller, with its own ETag', async () => {
    await using server = await startClosedServer()
    const [all, some] = [await server.load(MAILER), await server.load(READER)]
    const names = ({ text }: typeof all) =>
      JSON.parse(text).functions.map((described: { name: string }) => described.name)
    expect([names(all), names(some)]).toEqual([
      ['send', 'read', 'now'],
      ['read', 'now'],
    ])
    expect(all.headers.etag).not.toBe(some.headers.etag)
    expect(some.headers).toMatchObject({ vary: expect.stringMatching(/authorization/i) })
  })

  it('OTS-49: no key, good or bad, is in a log or in an answer', async () => {
    await using server = await startClosedServer()
    const wrong = 'wrong-key-0123456789abcdef'
    const answers = [
      await server.call(MAILER, 'send'),
      await server.call(READER, 'send'),
      await server.call(wrong, 'send'),
      await server.load(wrong),
    ]
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 401, 401])
    const reported = JSON.stringify([answers, server.logged])
    expect(server.logged.length).toBeGreaterThanOrEqual(answers.length)
    for (const key of [MAILER, READER, wrong]) expect(reported).not.toContain(key)
  })
})
