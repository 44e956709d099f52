import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { backUpStore, openStore } from '#store/stores'
import { CLIENT_SECRET } from './authorization-server.ts'
import { Browser } from './browser.ts'
import { ADMIN, AGENT, OTHER, openStage, type Stage } from './oauth-stage.ts'
import { tamperedStore } from './stage-store.ts'

const PLANTED = 'canary-secret-Zk93/+ü"q'

async function startCollector() {
  const bodies: string[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    bodies.push(Buffer.concat(chunks).toString())
    response.writeHead(200).end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  return {
    endpoint: `http://127.0.0.1:${port}`,
    bodies,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function admin(stage: Stage, method: string, path: string, body?: object): Promise<string> {
  const response = await fetch(`${stage.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return `${response.status} ${await response.text()}`
}

function folderBytes(folder: string): string {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile() && !path.includes('start-token'))
    .map((path) => readFileSync(path, 'latin1'))
    .join('\n')
}

/** The encodings of a text that a sink may contain: plain, JSON, query, base64, and bytes decoded one by one. */
function spellings(text: string): readonly string[] {
  const bytes = Buffer.from(text)
  return [
    text,
    JSON.stringify(text).slice(1, -1),
    encodeURIComponent(text),
    bytes.toString('latin1'),
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    bytes.toString('hex'),
  ]
}

describe('the canary', () => {
  it('OWP-75, OWP-85: no credential is in any log, error, journal, event, trace, metric, backup or database', async () => {
    await using collector = await startCollector()
    await using stage = await openStage({
      changes: { otlpEndpoint: collector.endpoint },
      accessTokenSeconds: 30,
    })
    const browser = new Browser()
    const answers: string[] = []
    const keep = (answer: { readonly json: unknown }) => void answers.push(JSON.stringify(answer.json))

    const stolen = await stage.challenge({ userId: 'u1' })
    keep(await stage.call())
    await browser.visit((await stage.challenge()).url, { login: 'ann', denies: true })
    await browser.visit((await stage.challenge()).url, { login: 'ann' })
    await browser.get(`${stage.url}/oauth/callback?state=guess&code=guess`)
    await new Browser().get(stolen.url)
    for (const tool of ['Mail.Read', 'Mail.Fail', 'Mail.Throw', 'Mail.Send'])
      keep(await stage.call({ tool, callId: tool, run: 'canary' }))
    keep(await stage.call({ tool: 'Mail.Throw', token: 'canary-sent-token-1234567' }))
    answers.push(
      await admin(stage, 'POST', '/admin/secrets', {
        name: 'API_KEY',
        principal: 'key:agent',
        value: PLANTED,
      }),
    )
    answers.push(
      await admin(stage, 'POST', '/admin/secrets', { name: 'API_KEY', principal: 7, value: PLANTED }),
    )
    keep(await stage.call({ tool: 'Text.Secret', callId: 's1' }))
    keep(await stage.call({ tool: 'Text.Secret', callId: 's2', input: { text: PLANTED } }))
    const refresh = await tamperedStore(stage, async (store) => store.expireTokens())
    keep(await stage.call())
    const dead = await tamperedStore(stage, async (store) => store.expireTokens('canary-refresh-token-8812'))
    keep(await stage.call())
    answers.push(await admin(stage, 'GET', '/admin/secrets'))
    const metrics = await admin(stage, 'GET', '/metrics')

    const runs = await fetch(`${stage.url}/v1/runs/canary/events/poll`, {
      headers: { authorization: `Bearer ${AGENT}` },
    })
    const events = await runs.text()
    const { store: url, dataFolder, masterKey } = stage.settings
    const reader = await openStore(url, { dataFolder, masterKey, mode: 'operator' })
    const journal = JSON.stringify(await reader.readJournal([], 10_000))
    const calls = JSON.stringify(await reader.list({ limit: 100 }))
    await reader.close()
    await backUpStore(url, join(dataFolder, 'backup.db'))
    await stage.closeServer()

    const visited = browser.visited.map((each) => new URL(each).searchParams)
    const named = (name: string) =>
      visited.map((query) => query.get(name) ?? '').filter((text) => text.length > 8)
    const canaries = {
      planted: [PLANTED],
      sent: ['canary-sent-token-1234567'],
      access: stage.given.map(({ token }) => token),
      refresh: [refresh, dead, 'canary-refresh-token-8812'],
      client: [CLIENT_SECRET],
      keys: [AGENT, OTHER, ADMIN],
      codes: named('code'),
      states: named('state'),
      cookies: [...browser.cookiesOf(stage.url).values()],
    }
    for (const [kind, texts] of Object.entries(canaries))
      expect(texts.filter(Boolean).length, kind).toBeGreaterThan(0)
    const sinks = {
      answers: answers.join('\n'),
      log: stage.logged.join('\n'),
      metrics,
      journal,
      events,
      traces: collector.bodies.join('\n'),
      files: folderBytes(dataFolder),
    }
    for (const [name, text] of Object.entries(sinks)) expect(text.length, name).toBeGreaterThan(100)
    // The input of a call is its caller's own text, which an operator may read back; it is sealed on disk.
    expect(calls).not.toContain(refresh)
    const leaks = Object.entries(sinks).flatMap(([sink, text]) =>
      Object.entries(canaries).flatMap(([kind, texts]) =>
        texts
          .filter((canary) => canary !== '' && spellings(canary).some((spelling) => text.includes(spelling)))
          .map(() => `${kind} in ${sink}`),
      ),
    )
    expect(leaks).toEqual([])
    // Credentials of callers are never sent to a provider (OWP-85).
    const sentOut = stage.provider.headers.join('\n')
    for (const key of [AGENT, OTHER, ADMIN, PLANTED, 'canary-sent-token-1234567'])
      expect(sentOut).not.toContain(key)
    rmSync(dataFolder, { recursive: true, force: true })
  })
})
