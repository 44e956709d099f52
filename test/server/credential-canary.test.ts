import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { SignJWT } from 'jose'
import { describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { startServer } from '#server/start-server'
import { createLog } from '#server/telemetry/log'
import { openStore } from '#store/stores'
import { httpSend } from '../conformance/http-send.ts'
import { sqliteSettings } from '../test-settings.ts'
import { key, TOOLS } from './principals-server.ts'

const SHARED = 'canary-shared-secret-0123456789abcdef'

/** Sends credentials of every kind, valid and invalid, and searches every place where none may be found afterwards. */
describe('a credential', () => {
  it('OTC-103, OTS-49, OWP-24: is in no answer, log line, metric, journal, audit line or file', async () => {
    const lines: string[] = []
    const settings = sqliteSettings({
      tools: TOOLS,
      auth: {
        apiKeys: [key('root', ['*'], { key: new Secret('canary-config-key') })],
        jwt: { secret: new Secret(SHARED), audiences: ['x'], maxLifetimeSeconds: 900, tenant: 'acme' },
      },
    })
    const log = createLog('debug', { write: (line) => lines.push(line) })
    const server = await startServer(settings, { graceMs: 0, log })
    const send = httpSend(server.url)
    const startToken = readFileSync(server.startTokenFile, 'utf8').trim()
    const sign = (claims: object, secret = SHARED) =>
      new SignJWT({ sub: 'canary-subject', exp: Date.now() / 1_000 + 60, ...claims })
        .setProtectedHeader({ alg: 'HS256' })
        .sign(new TextEncoder().encode(secret))
    const ask = async (path: string, headers: Record<string, string>, body?: string) => {
      const type: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' }
      const method = body === undefined ? 'GET' : 'POST'
      return await send({ method, path, headers: { ...headers, ...type }, body })
    }
    const bearer = (text: string) => ({ authorization: `Bearer ${text}` })
    const made = await ask(
      '/admin/keys',
      bearer(startToken),
      JSON.stringify({ principal: 'ann', scopes: ['*'] }),
    )
    const { key: stored }: { key: string } = JSON.parse(made.text)
    const wrong = `${stored.slice(0, -6)}canary`
    const tokens = await Promise.all([
      sign({ aud: 'x' }),
      sign({ aud: 'canary-audience' }),
      sign({ exp: 1 }),
      sign({}, 'another-canary-secret-0123456789abcdef'),
    ])
    const credentials = [
      'canary-config-key',
      stored,
      wrong,
      ...tokens,
      startToken,
      `${stored}, Bearer ${stored}`,
    ]
    const body = '{"$schema":"urn:oxp:1.0","request":{"tool_id":"Mail.Send","input":{}}}'
    const answers: string[] = []
    for (const credential of credentials) {
      for (const headers of [
        bearer(credential),
        { 'x-api-key': credential },
        { authorization: credential },
      ]) {
        for (const path of [
          '/tools',
          '/v1/tools',
          '/opentool/load',
          '/admin/keys',
          '/admin/audit',
          '/metrics',
          '/nothing',
        ]) {
          const answer = await ask(path, headers)
          answers.push(answer.text, JSON.stringify(answer.headers))
        }
        for (const path of ['/tools/call', '/opentool/call', '/admin/keys']) {
          const answer = await ask(path, headers, body)
          answers.push(answer.text, JSON.stringify(answer.headers))
        }
      }
    }
    await server.close()
    const { store: url, dataFolder, masterKey } = settings
    const store = await openStore(url, { dataFolder, masterKey, mode: 'operator' })
    const journal = JSON.stringify(await store.readJournal([], 10_000))
    const audit = JSON.stringify(await store.audit.readDenials({ after: 0, limit: 10_000 }))
    await store.close()
    const files = readdirSync(dataFolder, { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name }) => readFileSync(join(dataFolder, name), 'latin1'))
    rmSync(dataFolder, { recursive: true })
    const secrets = [
      ...credentials.slice(0, -1),
      SHARED,
      stored.slice(-43),
      ...tokens.map((token) => token.slice(-43)),
    ]
    for (const sink of [answers.join('\n'), lines.join('\n'), journal, audit, ...files]) {
      for (const secret of secrets) expect(sink.includes(secret)).toBe(false)
    }
    expect(lines.length).toBeGreaterThan(100)
    expect(audit + lines.join('\n')).not.toContain('canary-subject')
  })
})
