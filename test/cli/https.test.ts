import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { requireTools } from '#kernel/tool/prepare-tools'
import { type RunningServer, startServer } from '#server/start-server'
import { runCollet } from '../e2e/server-process.ts'
import { makeSelfSigned } from '../egress/self-signed.ts'
import { testSettings } from '../test-settings.ts'
import { FakeIo } from './fake-io.ts'

const HELLO = {
  id: 'Say.Hello@1.0.0',
  description: 'Greets.',
  input: {},
  output: { type: 'string' },
  policy: { safetyTier: 'pure' },
  run: () => 'hello',
}

let folder: string
let server: RunningServer
const named = (name: string, address?: readonly number[]) =>
  makeSelfSigned(name, Date.now(), {
    lastsMs: 60 * 86_400_000,
    ...(address === undefined ? {} : { address }),
  })

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-https-'))
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') }
  const { cert, key } = named('tools.example', [127, 0, 0, 1])
  writeFileSync(files.cert, cert)
  writeFileSync(files.key, key, { mode: 0o600 })
  configure('collet.config.json', 'cert.pem')
  const settings = testSettings({ dataFolder: join(folder, '.collet'), tools: requireTools([HELLO]) })
  server = await startServer({ ...settings, server: { ...settings.server, tls: files } }, { graceMs: 100 })
})
afterAll(async () => {
  await server?.close()
  rmSync(folder, { recursive: true })
})

function configure(file: string, cert: string): void {
  writeFileSync(
    join(folder, file),
    JSON.stringify({ store: 'sqlite:.collet/collet.db', server: { tls: { cert, key: 'key.pem' } } }),
  )
}

/** One command in the folder of the config, over the real network. */
async function run(...argv: string[]) {
  const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, clock: SYSTEM_CLOCK })
  return { code: await io.run(...argv), stdout: io.stdout, stderr: io.stderr }
}

describe('the command line and a server that speaks https', () => {
  it('calls it when its certificate authority is configured', async () => {
    const { code, stdout } = await runCollet(['call', 'Say.Hello', '--url', server.url], {
      env: { NODE_EXTRA_CA_CERTS: join(folder, 'cert.pem') },
    })
    expect([code, stdout.trim()]).toEqual([0, '"hello"'])
  })

  it('explains what to do if the authority is unknown or the scheme is wrong', async () => {
    const elsewhere = new FakeIo(REAL_SERVICES, { workingFolder: tmpdir(), clock: SYSTEM_CLOCK })
    const code = await elsewhere.run('call', 'Say.Hello', '--url', server.url)
    const unknown = { code, stderr: elsewhere.stderr }
    expect([unknown.code, unknown.stderr]).toEqual([3, expect.stringContaining('NODE_EXTRA_CA_CERTS=ca.pem')])
    const plain = await run('sources', '--url', server.url.replace('https', 'http'))
    expect([plain.code, plain.stderr]).toEqual([3, expect.stringContaining('write https://')])
  })

  it('accepts only the certificate of the config for the server on this machine', async () => {
    const called = await run('call', 'Say.Hello')
    expect([called.code, called.stdout.trim()]).toEqual([0, '"hello"'])
    const own = await run('sources', '--url', server.url, '--json')
    expect([own.code, own.stdout.trim()]).toEqual([0, '[]'])
    configure('strange.config.json', 'stranger.pem')
    // Trusted as an authority would be, and still not the one that is named.
    const served = readFileSync(join(folder, 'cert.pem'), 'utf8')
    const otherCert = named('tools.example', [127, 0, 0, 1]).cert
    writeFileSync(join(folder, 'stranger.pem'), otherCert + served)
    const refused = await run('sources', '--url', server.url, '--config', 'strange.config.json')
    expect([refused.code, refused.stderr]).toEqual([3, expect.stringContaining('No answer from')])
  })

  it('follows calls on it as they happen', async () => {
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, clock: SYSTEM_CLOCK })
    const following = io.run('calls', '--follow', '--json', '--url', server.url)
    await vi.waitFor(async () => {
      expect((await run('call', 'Say.Hello', '--url', server.url)).code).toBe(0)
      expect(io.stdout).toContain('Say.Hello')
    }, 20_000)
    io.stop()
    expect(await following).toBe(0)
  })

  it.each([
    ['absent.pem', 'absent.pem does not exist.'],
    ['.collet', '.collet is a folder.'],
  ])('names the setting whose file it cannot read, and what to do: %s', async (cert, problem) => {
    configure('unread.config.json', cert)
    const { code, stderr } = await run('sources', '--url', server.url, '--config', 'unread.config.json')
    expect([code, stderr]).toEqual([2, expect.stringContaining('server.tls.cert: ')])
    expect(stderr).toContain(problem)
    expect(stderr).toContain('--url https://…')
  })

  it('checks the certificate with collet doctor', async () => {
    const { stdout } = await run('doctor', '--json')
    const message = `${join(folder, 'cert.pem')} is valid until`
    expect(JSON.parse(stdout)).toContainEqual(
      expect.objectContaining({ subject: 'tls', message: expect.stringContaining(message) }),
    )
  })
})
