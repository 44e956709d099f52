import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type ServerProcess, startCollet } from '../e2e/server-process.ts'
import {
  CLIENT_SECRET,
  startAuthorizationServer,
  type TestAuthorizationServer,
} from './authorization-server.ts'
import { Browser } from './browser.ts'
import { AGENT, askOtc } from './oauth-stage.ts'

const LIMIT_MS = 60_000

/** A port that stays the same across restarts, because the browser keeps its address. */
async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return typeof address === 'object' && address !== null ? address.port : 0
}

function configOf(provider: TestAuthorizationServer, port: number): string {
  return `
export default {
  server: { port: ${port} },
  auth: { apiKeys: [{ id: 'agent', key: '${AGENT}' }] },
  oauth: { providers: { mailer: {
    issuer: '${provider.issuer}', clientId: 'collet', clientSecret: '${CLIENT_SECRET}',
    alwaysScopes: ['openid', 'offline_access'], parameters: { prompt: 'consent' },
  } } },
  tools: [{
    [Symbol.for('collet.tool')]: true,
    id: 'Mail.Read@1.0.0',
    description: 'Reads mail.',
    input: { type: 'object' },
    output: {},
    policy: { safetyTier: 'write' },
    requirements: { authorization: [{ id: 'mailer', oauth2: { scopes: ['mail.read'] } }] },
    run: (_input, context) => 'mail ' + context.token('mailer').reveal().length,
  }],
}
`
}

async function openProject() {
  const provider = await startAuthorizationServer()
  const folder = mkdtempSync(join(tmpdir(), 'collet-consent-'))
  writeFileSync(join(folder, 'collet.config.mjs'), configOf(provider, await freePort()))
  const servers: ServerProcess[] = []
  const start = async () => {
    const server = await startCollet(['serve'], { cwd: folder })
    servers.push(server)
    return server
  }
  return {
    provider,
    start,
    async [Symbol.asyncDispose]() {
      for (const server of servers) await server.stop('SIGKILL')
      await provider[Symbol.asyncDispose]()
      rmSync(folder, { recursive: true })
    },
  }
}

async function challengeOf(server: ServerProcess): Promise<string> {
  const { json } = await askOtc(server.url, { callId: 'c1' })
  return json.missing_requirements.authorization[0].url
}

describe('a SIGKILL', () => {
  it('between the exchange of the code and the store: the link works again', {
    timeout: LIMIT_MS,
  }, async () => {
    await using project = await openProject()
    const first = await project.start()
    const url = await challengeOf(first)
    project.provider.intercept = (request) => {
      if (request.url === '/token') void first.stop('SIGKILL')
      return false
    }
    await expect(new Browser().visit(url, { login: 'ann' })).rejects.toThrow('fetch failed')
    project.provider.intercept = undefined
    const second = await project.start()
    expect((await askOtc(second.url, { callId: 'c1' })).status).toBe(400)
    expect((await new Browser().visit(url, { login: 'ann' })).status).toBe(200)
    expect((await askOtc(second.url, { callId: 'c1' })).value).toMatch(/^mail/)
  })
})
