import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { readEnvironment } from '#config/environment'
import { FakeIo } from './fake-io.ts'

describe('which server a command talks to', () => {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-address-'))
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  function configure(server: object): void {
    writeFileSync(join(folder, 'collet.config.json'), JSON.stringify({ server }))
  }

  function publishToken(port: number): void {
    mkdirSync(join(folder, '.collet'), { recursive: true })
    writeFileSync(join(folder, '.collet', `start-token-${port}`), `token-${port}\n`)
  }

  /** The first request of each kind of command, and its message when no server answers. */
  async function ask(
    argv: readonly string[],
    variables: Record<string, string> = {},
    failure: Error = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }),
  ) {
    const asked: string[] = []
    const send: typeof fetch = async (input) => {
      asked.push(new URL(String(input)).origin)
      throw failure
    }
    const connect = async (url: string) => {
      asked.push(url)
      const { connect: real } = await import('#client/index')
      return real(url, { fetch: send })
    }
    const io = new FakeIo(
      { fetch: send, connect },
      { workingFolder: folder, environment: readEnvironment(variables) },
    )
    const code = await io.run(...argv)
    return { code, asked: asked[0], stderr: io.stderr }
  }

  const CLIENTS = [
    ['call', 'Say.Hello'],
    ['calls', 'cancel', 'c1'],
    ['sources'],
    ['reload'],
    ['approvals', 'link', 'a'.repeat(22), '--for', 'ann'],
  ] as const

  it.each(CLIENTS.map((argv) => [argv.join(' '), argv] as const))(
    'is the same for every command: %s',
    async (_, argv) => {
      expect(await ask(argv)).toMatchObject({
        code: 3,
        asked: 'http://127.0.0.1:4100',
        stderr: expect.stringContaining('the default address, because no other is known here'),
      })
      configure({ port: 21_110, host: '0.0.0.0' })
      expect(await ask(argv)).toMatchObject({
        code: 3,
        asked: 'http://127.0.0.1:21110',
        stderr: expect.stringContaining('the address in collet.config.json'),
      })
      const variables = { COLLET_URL: 'http://127.0.0.1:21112/' }
      expect(await ask(argv, variables)).toMatchObject({
        code: 3,
        asked: 'http://127.0.0.1:21112',
        stderr: expect.stringContaining('COLLET_URL'),
      })
      const named = await ask([...argv, '--url', 'http://127.0.0.1:21113'], variables)
      expect(named).toMatchObject({ code: 3, asked: 'http://127.0.0.1:21113' })
      expect(named.stderr).toContain('Is the server running?')
      expect(named.stderr).toContain('--url, else at COLLET_URL, else at the address in the config')
    },
  )

  it('is the server that runs on the data folder, even on another port', async () => {
    configure({ port: 21_110 })
    publishToken(21_111)
    expect((await ask(['sources'])).asked).toBe('http://127.0.0.1:21111')
    expect((await ask(['call', 'T.A'])).stderr).toContain('start-token-21111 in the data folder')
    publishToken(21_110)
    expect((await ask(['sources'])).asked).toBe('http://127.0.0.1:21110')
  })

  it('is not a killed server that left its token, nor a process that serves only pages', async () => {
    configure({ port: 21_110 })
    publishToken(21_111)
    const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })
    const { stderr } = await ask(['call', 'T.A'], {}, new TypeError('fetch failed', { cause: refused }))
    expect(stderr).toContain('http://127.0.0.1:21110')
    rmSync(join(folder, '.collet', 'start-token-21111'))
    writeFileSync(join(folder, '.collet', 'pages-token-21112'), 'token')
    expect((await ask(['sources'])).asked).toBe('http://127.0.0.1:21110')
  })

  it('is not guessed if the config is invalid', async () => {
    writeFileSync(join(folder, 'collet.config.json'), '{"server":{"port":"x"}}')
    const { code, asked, stderr } = await ask(['call', 'T.A'])
    expect([code, asked]).toEqual([2, undefined])
    expect(stderr).toContain('server.port')
  })
})
