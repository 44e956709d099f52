import { once } from 'node:events'
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { connect as connectPlain } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { ServedCertificate } from '#server/http/certificate'
import { startServer } from '#server/start-server'
import { createLog } from '#server/telemetry/log'
import { makeSelfSigned, type SelfSigned } from '../egress/self-signed.ts'
import { testSettings } from '../test-settings.ts'
import { heldRoute, startApp, stopApps, type TestApp } from './start-app.ts'

const DAY_MS = 86_400_000
const POLL_MS = 30
const made = (name: string, lastsMs = 60 * DAY_MS): SelfSigned =>
  makeSelfSigned(name, Date.now(), { address: [127, 0, 0, 1], lastsMs })

let folder: string
let files: { cert: string; key: string }
let certificate: ServedCertificate | undefined
const logged: string[] = []
const log = createLog('info', { write: (line) => logged.push(line) })

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-tls-'))
  files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') }
  logged.length = 0
})
afterEach(async () => {
  certificate?.close()
  await stopApps()
  rmSync(folder, { recursive: true })
})

function write({ cert, key }: SelfSigned): void {
  writeFileSync(files.cert, cert)
  writeFileSync(files.key, key)
}

/** Replaces the files as certbot and most tools do: written to temporary files, then renamed one after the other. */
function renameIntoPlace({ cert, key }: SelfSigned): void {
  for (const [path, text] of [
    [files.cert, cert],
    [files.key, key],
  ] as const) {
    writeFileSync(`${path}.new`, text)
    renameSync(`${path}.new`, path)
  }
}

/** Replaces the files as Kubernetes mounts a secret: they are links through `..data`, which is switched to another folder. */
function switchLink(pair: SelfSigned, round: string): void {
  const target = join(folder, `..${round}`)
  mkdirSync(target)
  writeFileSync(join(target, 'tls.crt'), pair.cert)
  writeFileSync(join(target, 'tls.key'), pair.key)
  symlinkSync(`..${round}`, join(folder, '..data_tmp'))
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
}

async function serve(more: Parameters<typeof startApp>[0] = {}): Promise<TestApp> {
  certificate = await ServedCertificate.open(files, { clock: SYSTEM_CLOCK, log, pollMs: POLL_MS })
  return await startApp({ certificate, ...more })
}

/** A connection, and the name in the server's certificate. */
async function open(port: number, ca: string): Promise<{ socket: TLSSocket; name: string | undefined }> {
  const socket = connect({ host: '127.0.0.1', port, ca })
  await once(socket, 'secureConnect')
  return { socket, name: String(socket.getPeerCertificate().subject.CN) }
}

async function shownName(port: number): Promise<string | undefined> {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const name = String(socket.getPeerCertificate().subject.CN)
  socket.destroy()
  return name
}

interface Asked {
  readonly agent?: Agent
  readonly method?: string
  readonly headers?: Record<string, string>
}

function ask(url: string, { cert: ca }: SelfSigned, asked: Asked = {}): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>()
  const { agent = false, method = 'GET', headers = {} } = asked
  const sent = request(url, { ca, agent, method, headers }, (response) => {
    response.resume().on('end', () => resolve(response.statusCode))
  })
  sent.on('error', reject).end(method === 'POST' ? '{}' : undefined)
  return promise
}

describe('server.tls', () => {
  it('serves https only, from TLS 1.2 on, and accepts its own https origin', async () => {
    const own = made('localhost')
    write(own)
    const { url, port } = await serve()
    expect(url).toBe(`https://127.0.0.1:${port}`)
    expect(await ask(`${url}/health`, own)).toBe(200)
    expect(await ask(`${url}/health`, own, { headers: { origin: url } })).toBe(200)
    const plain = url.replace('https', 'http')
    expect(await ask(`${url}/health`, own, { headers: { origin: plain } })).toBe(403)
    for (const [version, word] of [
      ['TLSv1.2', 'TLSv1.2'],
      ['TLSv1.3', 'TLSv1.3'],
    ] as const) {
      const socket = connect({ host: '127.0.0.1', port, ca: own.cert, maxVersion: version })
      await once(socket, 'secureConnect')
      expect(socket.getProtocol()).toBe(word)
      socket.destroy()
    }
    const ciphers = 'DEFAULT@SECLEVEL=0'
    const old = connect({
      host: '127.0.0.1',
      port,
      ca: own.cert,
      ciphers,
      minVersion: 'TLSv1',
      maxVersion: 'TLSv1.1',
    })
    expect((await once(old, 'error'))[0].code).toMatch(/PROTOCOL_VERSION/)
  })

  it('closes a connection with plain HTTP or garbage, and keeps serving', async () => {
    const own = made('localhost')
    write(own)
    const { url, port } = await serve()
    for (const bytes of [
      'GET /health HTTP/1.1\r\nHost: x\r\n\r\n',
      '\x16\x03\x01\xff\xff',
      '\0'.repeat(2_000),
    ]) {
      const socket = connectPlain(port, '127.0.0.1').on('error', () => undefined)
      socket.write(bytes, 'latin1')
      setTimeout(() => socket.end(), 50)
      await once(socket.resume(), 'close')
    }
    const { socket } = await open(port, own.cert)
    socket.write('no request\r\n\r\n')
    expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 400 /)
    expect(await ask(`${url}/health`, own)).toBe(200)
  })

  it('does not wait for silent connections when it closes', async () => {
    const own = made('localhost')
    write(own)
    // Longer than the timeout of this test, so that this limit cannot end the connections.
    const { port, app } = await serve({ timeouts: { closeMs: 120_000 } })
    const { socket } = await open(port, own.cert)
    const silent = connectPlain(port, '127.0.0.1').on('error', () => undefined)
    await once(silent, 'connect')
    await app.close()
    socket.destroy()
    silent.destroy()
  })

  it('closes connections without a handshake, as it does over http', async () => {
    write(made('localhost'))
    const { port } = await serve({ timeouts: { headersMs: 200 } })
    const silent = connectPlain(port, '127.0.0.1').on('error', () => undefined)
    silent.resume()
    await once(silent, 'close', { signal: AbortSignal.timeout(5_000) })
  })
})

describe('files that change', () => {
  it.each(['renamed into place', 'behind a link that is switched'])(
    'are reloaded when they are %s; connections stay open, and running requests finish',
    async (way) => {
      const [first, second] = [made('first.example'), made('second.example')]
      const isLinked = way !== 'renamed into place'
      if (isLinked) {
        switchLink(first, 'one')
        symlinkSync('..data/tls.crt', files.cert)
        symlinkSync('..data/tls.key', files.key)
      } else write(first)
      const { route, release, entered } = heldRoute()
      const { url, port } = await serve({ routes: [route] })
      const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: first.cert })
      const running = ask(`${url}/held`, first, {
        agent,
        method: 'POST',
        headers: { 'content-type': 'application/json' },
      })
      await entered
      if (isLinked) switchLink(second, 'two')
      else renameIntoPlace(second)
      await expect.poll(() => shownName(port), { timeout: 5_000 }).toBe('second.example')
      release()
      expect(await running).toBe(200)
      // The open connection still uses the previous certificate.
      expect(
        await ask(`${url}/held`, first, {
          agent,
          method: 'POST',
          headers: { 'content-type': 'application/json' },
        }),
      ).toBe(200)
      agent.destroy()
      expect(logged.join('')).toContain('the certificate was reloaded')
      expect(logged.join('')).not.toContain('refused')
    },
  )

  it('are refused while they do not match, with one log line; the previous ones stay in use until they do', async () => {
    const [first, second] = [made('first.example'), made('second.example')]
    write(first)
    const { port } = await serve()
    writeFileSync(files.key, second.key)
    const complaints = () => logged.filter((line) => line.includes('the previous certificate stays in use'))
    await expect.poll(complaints, { timeout: 5_000 }).toHaveLength(1)
    expect(complaints()[0]).toMatch(/"level":"error".*is not the key of/)
    expect(await shownName(port)).toBe('first.example')
    rmSync(files.cert)
    await expect.poll(complaints, { timeout: 5_000 }).toHaveLength(2)
    expect(complaints()[1]).toContain('does not exist')
    const ended = made('ended.example', -DAY_MS)
    write(ended)
    await expect.poll(complaints, { timeout: 5_000 }).toHaveLength(3)
    expect(complaints()[2]).toContain('expired on')
    expect(await shownName(port)).toBe('first.example')
    write(makeSelfSigned('early.example', Date.now() + 10 * DAY_MS))
    await expect.poll(complaints, { timeout: 5_000 }).toHaveLength(4)
    expect(complaints()[3]).toContain('is valid from')
    expect(await shownName(port)).toBe('first.example')
    write(second)
    await expect.poll(() => shownName(port), { timeout: 5_000 }).toBe('second.example')
    expect(complaints()).toHaveLength(4)
    expect(logged.join('')).not.toContain('PRIVATE KEY')
  })
})

describe('a server with certificate files', () => {
  it('uses https addresses, exports the expiry of its certificate as a metric, and warns before it', async () => {
    const own = made('localhost', 5 * DAY_MS)
    write(own)
    const settings = testSettings({ store: 'memory:' })
    const server = await startServer(
      { ...settings, server: { ...settings.server, tls: files } },
      { log, graceMs: 100 },
    )
    try {
      expect(server.url).toMatch(/^https:/)
      expect(logged.join('')).toMatch(/"level":"warn".*cert\.pem expires on/)
      const { promise, resolve } = Promise.withResolvers<string>()
      request(`${server.url}/metrics`, { ca: own.cert, agent: false }, async (response) => {
        resolve((await response.toArray()).join(''))
      }).end()
      const [, end] = /^collet_tls_certificate_expiry_timestamp_seconds (\d+)$/m.exec(await promise) ?? []
      expect(Math.abs(Number(end) * 1_000 - (Date.now() + 5 * DAY_MS))).toBeLessThan(60_000)
    } finally {
      await server.close()
      rmSync(settings.dataFolder, { recursive: true, force: true })
    }
  })

  it('loads a new certificate on a reload, and reports why it cannot', async () => {
    const own = made('localhost')
    write(own)
    const settings = testSettings({ store: 'memory:' })
    const whole = { ...settings, server: { ...settings.server, tls: files } }
    const server = await startServer(whole, { log, graceMs: 100 })
    try {
      write({ ...own, key: made('localhost').key })
      const bad = await server.reload(whole)
      expect(bad).toEqual({
        applied: [],
        needRestart: [],
        refused: [expect.stringContaining('is not the key of')],
      })
      write(made('second.example'))
      expect(await server.reload(whole)).toEqual({ applied: ['server.tls'], needRestart: [], refused: [] })
      expect(await shownName(Number(new URL(server.url).port))).toBe('second.example')
    } finally {
      await server.close()
      rmSync(settings.dataFolder, { recursive: true, force: true })
    }
  })

  it('does not start with files that do not match, and reports why', async () => {
    write({ ...made('localhost'), key: made('localhost').key })
    const settings = testSettings({ store: 'memory:' })
    const starting = startServer({ ...settings, server: { ...settings.server, tls: files } }, { log })
    await expect(starting).rejects.toThrow(/server\.tls\.key: .* is not the key of/)
  })
})
