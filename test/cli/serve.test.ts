import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Services } from '#cli/io'
import type { Settings } from '#config/settings'
import { StoreError } from '#core/errors'
import { StartRefused } from '#server/safety'
import { FakeIo } from './fake-io.ts'

describe('collet serve', () => {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-'))
    write('collet.config.json', { tools: ['./add.mjs'], server: { port: 4200 } })
    writeFileSync(
      join(folder, 'add.mjs'),
      `export const add = { [Symbol.for('collet.tool')]: true, id: 'T.A@1.0.0', description: 'D.', input: { type: 'object' }, output: {}, run: () => null }`,
    )
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  function write(name: string, content: unknown): void {
    writeFileSync(join(folder, name), JSON.stringify(content))
  }

  interface Started {
    settings?: Settings
    allowAnonymous?: boolean
    closes: number
  }

  /** A server that starts at once; `onStart` then has its turn. */
  function serving(started: Started, onStart: () => void, warnings: string[] = []): Partial<Services> {
    return {
      startServer: async (settings, { allowAnonymous }) => {
        Object.assign(started, { settings, allowAnonymous })
        queueMicrotask(() => setImmediate(onStart))
        return {
          url: 'http://127.0.0.1:4200',
          startTokenFile: '/data/start-token',
          consoleUrl: 'http://127.0.0.1:4200/console',
          signInUrl: 'http://127.0.0.1:4200/sign-in/once',
          warnings,
          readAgain: async () => ({ applied: [], needRestart: [], refused: [] }),
          counts: () => ({ tools: settings.tools.length, sources: 0 }),
          close: async () => {
            started.closes += 1
          },
        }
      },
    }
  }

  it.each(['sqlite:x.db', 'memory:'])('refuses workers on %s, and says why', async (store) => {
    const io = new FakeIo({}, { workingFolder: folder })
    expect(await io.run('serve', '--store', store, '--workers', '2')).toBe(2)
    expect(io.stderr).toContain('--workers needs a store on PostgreSQL')
  })

  it('prints the link that signs a browser in on a terminal, and in no log', async () => {
    let shown = ''
    const write = (text: string) => {
      shown += text
    }
    const stdout = { isTTY: true, write }
    const io = new FakeIo(
      serving({ closes: 0 }, () => io.stop()),
      { workingFolder: folder, stdout },
    )
    expect(await io.run('serve')).toBe(0)
    expect(shown).toContain('http://127.0.0.1:4200/sign-in/once')
  })

  it('says where it is, what to try, where data lives and where the start token is', async () => {
    const started: Started = { closes: 0 }
    const io = new FakeIo(
      serving(started, () => io.stop()),
      { workingFolder: folder },
    )
    expect(await io.run('serve')).toBe(0)
    expect(io.stdout).toContain('Collet serves 1 tool on http://127.0.0.1:4200')
    expect(io.stdout).toContain('curl -s http://127.0.0.1:4200/tools/call')
    expect(io.stdout).toContain('"tool_id":"T.A@1.0.0"')
    expect(io.stdout).toContain(join(folder, '.collet', 'collet.db'))
    expect(io.stdout).toContain('/data/start-token')
    expect(io.stdout).not.toContain('/sign-in/')
    expect(io.stdout).toContain('http://127.0.0.1:4200/console (to sign in as its operator: collet sign-in)')
    expect(io.stderr).toContain('Stopping')
    expect(started.closes).toBe(1)
    expect(io.exits).toEqual([])
  })

  it('hands flags to the server and shows its warnings', async () => {
    const started: Started = { closes: 0 }
    const io = new FakeIo(
      serving(started, () => io.stop(), ['Weak key.']),
      { workingFolder: folder },
    )
    const argv = [
      'serve',
      '--host',
      '0.0.0.0',
      '--port',
      '0',
      '--store',
      'memory:',
      '--allow-anonymous',
      '--json',
    ]
    expect(await io.run(...argv)).toBe(0)
    expect(started.settings).toMatchObject({ server: { host: '0.0.0.0', port: 0 }, store: 'memory:' })
    expect(started.allowAnonymous).toBe(true)
    expect(io.stderr).toContain('! Weak key.')
    expect(JSON.parse(io.stdout)).toMatchObject({ url: 'http://127.0.0.1:4200', tools: 1 })
  })

  it.each([
    ['0.0.0.0', true],
    ['::', true],
    ['127.0.0.1', false],
  ])('says of %s whether it listens on all addresses: %s', async (host, all) => {
    const io = new FakeIo(
      serving({ closes: 0 }, () => io.stop()),
      { workingFolder: folder },
    )
    expect(await io.run('serve', '--host', host)).toBe(0)
    expect(io.stdout.includes(`all addresses of this machine (${host})`)).toBe(all)
  })

  it('ends at once at the second request', async () => {
    const closing = Promise.withResolvers<void>()
    const io = new FakeIo(
      {
        startServer: async () => ({
          url: 'http://127.0.0.1:1',
          startTokenFile: '/data/start-token',
          warnings: [],
          readAgain: async () => ({ applied: [], needRestart: [], refused: [] }),
          counts: () => ({ tools: 1, sources: 0 }),
          close: () => {
            io.stop()
            closing.resolve()
            return closing.promise
          },
        }),
      },
      { workingFolder: folder },
    )
    const result = io.run('serve')
    await expect.poll(() => io.stdout).toContain('Collet serves')
    io.stop()
    expect(await result).toBe(0)
    expect(io.exits).toEqual([3])
  })

  it.each<[string, () => Error, number, string]>([
    [
      'a busy port',
      () => new Error('Port 4200 is taken.', { cause: withCode('EADDRINUSE') }),
      3,
      'Port 4200 is taken.',
    ],
    ['an exposed server', () => new StartRefused('Refusing to listen.\nAnd more.'), 2, '✗ And more.'],
    [
      'a broken store',
      () => new StoreError('unreadable', 'the key does not fit'),
      3,
      'Store: the key does not fit',
    ],
    ['a folder it may not write', () => withCode('EACCES', 'mkdir'), 3, 'Change its owner or permissions'],
  ])('explains %s without a stack', async (_, error, code, message) => {
    const io = new FakeIo({ startServer: () => Promise.reject(error()) }, { workingFolder: folder })
    expect(await io.run('serve')).toBe(code)
    expect(io.stderr).toContain(message)
    expect(io.stderr).not.toContain(' at ')
  })

  it('starts nothing when the config or a tool is wrong, and says everything', async () => {
    write('collet.config.json', { tools: ['./add.mjs'], sever: {}, server: { prot: 1 } })
    const io = new FakeIo({}, { workingFolder: folder })
    expect(await io.run('serve')).toBe(2)
    expect(io.stderr).toContain('✗ collet.config.json: unknown key "sever". Did you mean "server"?')
    expect(io.stderr).toContain('✗ collet.config.json: server: unknown key "prot". Did you mean "port"?')
  })

  it('watches in a process of its own, with the same flags', async () => {
    const starts: (readonly string[])[] = []
    const ended = Promise.withResolvers<number>()
    const io = new FakeIo(
      {},
      {
        workingFolder: folder,
        startProcess: (args) => {
          starts.push(args)
          setImmediate(() => io.stop())
          return { ended: ended.promise, stop: () => ended.resolve(0), kill: () => undefined }
        },
      },
    )
    expect(await io.run('serve', '--watch', '--port', '0', '--allow-anonymous')).toBe(0)
    expect(starts).toEqual([['serve', '--port=0', '--allow-anonymous']])
    expect(io.stderr).toContain(`Watching ${folder}`)
  })

  function withCode(code: string, syscall = 'listen'): Error {
    return Object.assign(new Error(`${code}: it does not work`), { code, syscall })
  }
})
