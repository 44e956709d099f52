import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer as createHttp, type RequestListener } from 'node:http'
import { createServer as createHttps } from 'node:https'
import type { Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { Secret } from '#kernel/base/secret'
import { startServer } from '#server/start-server'
import { SOURCE_OPTIONS } from '#sources/source-types'
import { openStore } from '#store/stores'
import { sampleTool } from '../contracts/samples.ts'
import { makeSelfSigned } from '../egress/self-signed.ts'
import { CLIENT_SECRET } from '../oauth/authorization-server.ts'
import { sqliteSettings } from '../test-settings.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => server.close())
  const address = server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

async function start(changes: Partial<Settings>) {
  const settings = sqliteSettings(changes)
  const server = await startServer(settings, { graceMs: 0 })
  closing.push(
    () => rmSync(settings.dataFolder, { recursive: true }),
    () => server.close(),
  )
  const startToken = readFileSync(server.startTokenFile, 'utf8').trim()
  return {
    server,
    settings,
    async ask(method: string, path: string, { as = startToken, body }: { as?: string; body?: object } = {}) {
      const response = await fetch(`${server.url}${path}`, {
        method,
        headers: { authorization: `Bearer ${as}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
      const json: any = await response.json()
      return { status: response.status, json }
    },
    stream: (body: object, signal: AbortSignal) =>
      fetch(`${server.url}/admin/sources/probe`, {
        method: 'POST',
        headers: { authorization: `Bearer ${startToken}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal,
      }),
  }
}

describe('the check of a source', () => {
  const checked = async (options: object) => {
    const { ask } = await start({ sources: new Map([['Up', SOURCE_OPTIONS.parse(options)]]) })
    const { json } = await ask('POST', '/admin/sources/Up/check', { body: {} })
    return {
      ...json,
      ends: json.steps.map(({ step, state }: { step: string; state: string }) => `${step} ${state}`),
      says: json.steps.find(({ state }: { state: string }) => state === 'failed')?.says ?? '',
    }
  }
  const answering = (listener: RequestListener) => listen(createHttp(listener))

  it('stops at a name that does not resolve', async () => {
    const { ok, ends, advice } = await checked({ type: 'mcp', url: 'http://nowhere.invalid/mcp' })
    expect([ok, ends[0], ends[1]]).toEqual([false, 'resolve failed', 'connect not_reached'])
    expect(advice).toContain('Check the spelling of nowhere.invalid')
  })

  it('stops at an untrusted certificate', async () => {
    const { cert, key } = makeSelfSigned('127.0.0.1', Date.now())
    const port = await listen(createHttps({ cert, key }, (_request, response) => response.end()))
    const { ends, says, advice } = await checked({ type: 'mcp', url: `https://127.0.0.1:${port}/mcp` })
    expect(ends).toEqual([
      ...['resolve done', 'connect done', 'tls failed'],
      ...['handshake not_reached', 'list not_reached', 'definitions not_reached'],
    ])
    expect(says).toMatch(/self.signed|certificate/i)
    expect(advice).toContain('Renew the certificate')
  })

  it('stops at a handshake in another protocol, and never shows the credential that it sent', async () => {
    const port = await answering((_request, response) => response.end('<h1>hello</h1>'))
    const headers = { Authorization: 'Bearer the-very-secret' }
    const found = await checked({ type: 'mcp', url: `http://127.0.0.1:${port}/mcp?key=hidden`, headers })
    expect(found.ends.slice(0, 3)).toEqual(['resolve done', 'connect done', 'handshake failed'])
    expect(JSON.stringify(found)).not.toContain('the-very-secret')
  })

  it('stops at a missing program, or one that does not list its tools', async () => {
    const absent = await checked({ type: 'mcp', command: 'no-such-program-anywhere' })
    expect(absent.ends).toEqual(['program failed', 'list not_reached', 'definitions not_reached'])
    const mute = await checked({ type: 'mcp', command: process.execPath, args: ['-e', 'process.exit(3)'] })
    expect(mute.ends).toEqual(['program done', 'list failed', 'definitions not_reached'])
  })

  it('completes where everything works; sources are shown without possible secrets', async () => {
    const program = new URL('../cli/small-mcp-server.mjs', import.meta.url).pathname
    const { ask } = await start({
      sources: new Map([
        [
          'Up',
          SOURCE_OPTIONS.parse({
            type: 'mcp',
            command: process.execPath,
            args: [program, '--token', 'hush'],
          }),
        ],
        ['Far', SOURCE_OPTIONS.parse({ type: 'mcp', url: 'http://127.0.0.1:9/mcp?key=hush' })],
      ]),
    })
    const { json } = await ask('POST', '/admin/sources/Up/check', { body: {} })
    expect([json.ok, json.steps.at(-1)?.state]).toEqual([true, 'done'])
    const listed = (await ask('GET', '/admin/sources')).json
    expect(JSON.stringify(listed)).not.toContain('hush')
    expect(listed.sources.map(({ target }: { target: string }) => target)).toEqual([
      `${process.execPath} ${program}`,
      'http://127.0.0.1:9/mcp',
    ])
    expect((await ask('POST', '/admin/sources/None/check', { body: {} })).status).toBe(400)
  })
})

describe('probing a source before it is added', () => {
  it('streams each line of the program, and ends it when its reader disconnects', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'collet-probe-'))
    closing.push(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'pid')
    const script = `require('fs').writeFileSync('${file}', String(process.pid)); process.stderr.write('slow\\n'); setInterval(() => {}, 1000)`
    const { stream } = await start({})
    const leaving = new AbortController()
    const response = await stream({ target: `${process.execPath} -e "${script}"` }, leaving.signal)
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
    let seen = ''
    while (!seen.includes('event: line')) seen += (await reader?.read())?.value ?? ''
    expect(seen).toContain('slow')
    expect(existsSync(file)).toBe(true)
    const pid = Number(readFileSync(file, 'utf8'))
    leaving.abort()
    await reader?.cancel().catch(() => undefined)
    await expect.poll(() => isAlive(pid), { timeout: 20_000 }).toBe(false)
  })

  it('is recorded in the journal before anything runs, and runs a successful program once', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'collet-probe-'))
    closing.push(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'runs')
    const script = `require('fs').appendFileSync('${file}', 'x')`
    const { settings, stream } = await start({})
    const target = `${process.execPath} -e "${script}" -- --token=hush`
    const text = await (await stream({ target }, AbortSignal.timeout(20_000))).text()
    expect(text).toContain('was started. The MCP server does not answer: it exited with code 0.')
    expect(readFileSync(file, 'utf8')).toBe('x')
    const { store: url, dataFolder, masterKey } = settings
    const store = await openStore(url, { dataFolder, masterKey, mode: 'operator' })
    closing.push(() => store.close())
    const journal = JSON.stringify(await store.readJournal([], 100))
    expect(journal).toContain('source.probed')
    expect(journal).not.toContain('hush')
  })

  it.each([
    ['http://127.0.0.1:9/mcp', '127.0.0.1:9 cannot be reached. Check that it runs'],
    ['file:///nowhere/at/all.json', "There is no file /nowhere/at/all.json on the server's machine."],
    ['no-such-program-anywhere --flag', 'There is no program no-such-program-anywhere on the server'],
  ])('first reports what prevents %s', async (target, words) => {
    const { stream } = await start({})
    const text = await (await stream({ target }, AbortSignal.timeout(20_000))).text()
    const [, failed = ''] = text.split('event: failed')
    expect(JSON.parse(failed.replace(/^\s*data: /, '')).message).toContain(words)
    expect(text).not.toMatch(/is not MCP|It is an MCP server/)
  })

  it.each([
    ['/nowhere/nope.js', "its last output: Error: Cannot find module '/nowhere/nope.js'."],
    [
      `-e "console.error('ENOENT, says the program'); process.exit(3)"`,
      'code 3; its last output: ENOENT, says the program.',
    ],
  ])('reports why a program ended, without locations in its code: node %s', async (args, words) => {
    const { stream } = await start({})
    const text = await (
      await stream({ target: `${process.execPath} ${args}` }, AbortSignal.timeout(20_000))
    ).text()
    const [, failed = ''] = text.split('event: failed')
    const { message } = JSON.parse(failed.replace(/^\s*data: /, ''))
    expect(message).toMatch(/^\S+ was started\. The MCP server does not answer: it exited with code \d; /)
    expect(message.endsWith(words), message).toBe(true)
  })

  it('detects the kind of a document, and refuses invalid targets', async () => {
    const document = { openapi: '3.1.0', info: { title: 'Greetings', version: '1' }, paths: {} }
    const port = await listen(
      createHttp((_request, response) =>
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(document)),
      ),
    )
    const { stream, ask } = await start({})
    const url = `http://127.0.0.1:${port}/openapi.json`
    const text = await (await stream({ target: url }, AbortSignal.timeout(20_000))).text()
    expect(text).toContain('event: found')
    expect(text).toContain('"key":"Greetings"')
    for (const body of [{}, { target: '' }, { target: 5 }, { target: 'x', api_key: 5 }])
      expect((await ask('POST', '/admin/sources/probe', { body })).status).toBe(400)
  })
})

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

describe('providers', () => {
  const KEYS = { ann: 'a'.repeat(40), boss: 'b'.repeat(40), far: 'c'.repeat(40) }
  const begin = () =>
    start({
      tools: [
        sampleTool('Mail.List@1.0.0', () => 'x', {
          requirements: { authorization: [{ id: 'mail', oauth2: { scopes: ['mail.read'] } }] },
        }),
      ],
      auth: {
        apiKeys: [
          { id: 'ann', key: new Secret(KEYS.ann), tenant: 'acme', scopes: [] },
          { id: 'boss', key: new Secret(KEYS.boss), tenant: 'acme', scopes: ['admin:secrets'] },
          { id: 'far', key: new Secret(KEYS.far), tenant: 'rival', scopes: ['admin:secrets'] },
        ],
        jwt: undefined,
      },
      oauth: {
        providers: {
          mail: {
            ...{
              issuer: 'http://127.0.0.1:9',
              clientId: 'collet',
              clientSecret: new Secret(CLIENT_SECRET),
              clientAuth: 'basic',
            },
            ...{ alwaysScopes: [], parameters: {} },
          },
        },
        signIn: undefined,
        allowUnboundConsent: false,
      },
    })

  it('are listed with the scopes their tools need, and each caller sees its own connections', async () => {
    const { ask } = await begin()
    const token = {
      principal: 'key:boss',
      name: 'mail',
      kind: 'token',
      value: 'the-token',
      scopes: ['mail.read'],
    }
    await ask('POST', '/admin/secrets', { as: KEYS.boss, body: token })
    const listed = async (as: string) => (await ask('GET', '/admin/providers', { as })).json
    const [mine] = (await listed(KEYS.boss)).providers
    expect(mine).toMatchObject({ id: 'mail', at: '127.0.0.1:9', scopes: ['mail.read'], tools: 1 })
    expect(mine.connections).toHaveLength(1)
    expect(JSON.stringify(mine)).not.toContain('the-token')
    expect((await listed(KEYS.ann)).providers[0].connections).toEqual([])
    expect((await listed(KEYS.far)).providers[0].connections).toEqual([])
  })

  it('are connected by callers for themselves; for others only with a scope, and only in their own tenant', async () => {
    const { ask } = await begin()
    const connect = (as: string | undefined, body: object, id = 'mail') =>
      ask('POST', `/admin/providers/${id}/connect`, { ...(as === undefined ? {} : { as }), body })
    const own = await connect(KEYS.ann, {})
    expect([own.status, own.json.principal]).toEqual([200, 'key:ann'])
    expect(own.json.url).toContain('/challenges/')
    expect((await connect(KEYS.ann, { principal: 'key:boss' })).status).toBe(403)
    expect((await connect(KEYS.boss, { principal: 'key:ann' })).status).toBe(200)
    expect((await connect(KEYS.boss, { principal: 'key:ann', tenant: 'rival' })).status).toBe(403)
    expect((await connect(undefined, {})).status).toBe(400)
    expect((await connect(undefined, { principal: 'key:far', tenant: 'rival' })).status).toBe(200)
    expect((await connect(KEYS.ann, { principal: 'anonymous' })).status).toBe(400)
    const unknown = await connect(KEYS.ann, {}, 'mial')
    expect([unknown.status, unknown.json.message]).toEqual([404, expect.stringContaining('mail')])
  })
})
