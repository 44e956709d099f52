import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Services } from '#cli/io'
import type { Settings } from '#config/settings'
import { StoreError } from '#kernel/base/errors'
import { StartRefused } from '#server/safety'
import type { SourceView } from '#sources/kit/sources'
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

  type Served = Awaited<ReturnType<Services['startServer']>>

  /** A server that starts immediately and then calls `onStart`. */
  function serving(
    started: Started,
    onStart: () => void,
    warnings: string[] = [],
    changes: Partial<Served> = {},
  ): Partial<Services> {
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
          announceStop: async () => {},
          isKeyed: false,
          sourceRead: async () => undefined,
          onSourceAdded: () => {},
          counts: () => ({ ...NO_SOURCES, tools: settings.tools.length, versions: settings.tools.length }),
          close: async () => {
            started.closes += 1
          },
          ...changes,
        }
      },
    }
  }

  it.each(['sqlite:x.db', 'memory:'])('refuses workers on %s, with the reason', async (store) => {
    const io = new FakeIo({}, { workingFolder: folder })
    expect(await io.run('serve', '--store', store, '--workers', '2')).toBe(2)
    expect(io.stderr).toContain('--workers needs a store on PostgreSQL')
  })

  it('prints the sign-in link on a terminal, never in a log', async () => {
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
    expect(shown.split('\n')[0]).toContain('http://127.0.0.1:4200/sign-in/once')
    expect(shown.split('\n')[0]).toContain('(signs you in once)')
  })

  const NO_SOURCES = { sources: 0, starting: [] }

  /** The output on stdout and stderr of a server with these facts. */
  async function printed(served: Partial<Served>, ...argv: string[]) {
    const opened: string[] = []
    const io = new FakeIo(
      serving({ closes: 0 }, () => io.stop(), [], served),
      { workingFolder: folder, command: './collet', openBrowser: (url) => opened.push(url) },
    )
    expect(await io.run('serve', ...argv)).toBe(0)
    return { stdout: io.stdout, stderr: io.stderr, opened }
  }

  it('counts a tool with two versions once, and names the versions', async () => {
    const { stdout } = await printed({ counts: () => ({ ...NO_SOURCES, tools: 6, versions: 7 }) })
    expect(stdout).toContain('Collet serves 6 tools (7 versions) on http://127.0.0.1:4200\n')
  })

  it.each([
    [1, '1 tool is hidden from all callers: it needs a scope that no key has.'],
    [2, '2 tools are hidden from all callers: they need scopes that no key has.'],
  ])('reports on a separate line that no caller can see %s of its tools', async (unreachable, line) => {
    const { stdout } = await printed({
      counts: () => ({ ...NO_SOURCES, tools: 15, versions: 17, unreachable }),
    })
    expect(stdout).toContain(`Collet serves 15 tools (17 versions) on http://127.0.0.1:4200\n${line}\n\n`)
  })

  it('names the source that is still starting, and reports when it was read', async () => {
    const view: SourceView = {
      ...{ key: 'Files', type: 'mcp', kind: 'mcp', sinceMs: 0, readAtMs: 1, waiting: 0, state: 'ready' },
      ...{
        tools: 14,
        warnings: [],
        findings: [],
        toolWarnings: [],
        prompts: 0,
        templates: 0,
        skills: 0,
        ineffective: [],
      },
    }
    const { stdout, stderr } = await printed({
      counts: () => ({ tools: 23, versions: 23, sources: 3, starting: ['Files'] }),
      sourceRead: async () => view,
    })
    expect(stdout).toContain('serves 23 tools (3 sources) on')
    expect(stdout).toContain('Files is still starting; its tools are not counted yet')
    expect(stderr).toContain('✓ Files: 14 tools\n')
    const { readAtMs: _, ...unread } = view
    const failed = await printed({
      counts: () => ({ tools: 23, versions: 23, sources: 3, starting: ['Files'] }),
      sourceRead: async () => ({ ...unread, tools: 0, state: 'down', reason: 'nothing answers' }),
    })
    expect(failed.stderr).toContain(
      '! Files cannot be read: nothing answers. The server tries again; "./collet sources check Files" shows the cause.',
    )
  })

  it('prints the next step if there are no tools', async () => {
    const { stdout } = await printed({ counts: () => ({ ...NO_SOURCES, tools: 0, versions: 0 }) })
    expect(stdout).toMatch(
      /Collet serves 0 tools .*\n\n {2}Next +\.\/collet import --from claude .*; \.\/collet init /,
    )
  })

  it('prints public addresses for MCP and the console behind a proxy', async () => {
    write('collet.config.json', { tools: ['./add.mjs'], server: { publicUrl: 'https://tools.example.com' } })
    const { stdout } = await printed({
      consoleUrl: 'https://tools.example.com/console',
      signInUrl: undefined,
    })
    expect(stdout).toMatch(/^Open https:\/\/tools\.example\.com\/console\n/)
    expect(stdout).toContain('https://tools.example.com/mcp (for your client: ./collet connect CLIENT)')
  })

  it('reports a console that is not built, unless the console is turned off', async () => {
    const { stdout } = await printed({ consoleUrl: undefined })
    expect(stdout).toMatch(/^Open http:\/\/127\.0\.0\.1:4200\n/)
    expect(stdout).toContain('Console      not built: run npm ci, then npm run build:console')
    write('collet.config.json', { tools: ['./add.mjs'], console: { enabled: false } })
    expect((await printed({ consoleUrl: undefined })).stdout).not.toContain('not built')
  })

  it('opens the browser only with --open, at the sign-in address', async () => {
    expect((await printed({})).opened).toEqual([])
    expect((await printed({}, '--open')).opened).toEqual(['http://127.0.0.1:4200/sign-in/once'])
  })

  it('prints its address, an example call, the data folder and the file of the start token', async () => {
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
    expect(io.stdout).toMatch(/^Open http:\/\/127\.0\.0\.1:4200\/sign-in\/once \(signs you in once\)\n/)
    expect(io.stderr).toContain('Stopping')
    expect(started.closes).toBe(1)
    expect(io.exits).toEqual([])
  })

  it('prints no sign-in link to the log of a server with keys', async () => {
    const io = new FakeIo(
      serving({ closes: 0 }, () => io.stop(), [], { isKeyed: true }),
      { workingFolder: folder },
    )
    expect(await io.run('serve')).toBe(0)
    expect(io.stdout).not.toContain('/sign-in/')
    expect(io.stdout).toMatch(/^Open http:\/\/127\.0\.0\.1:4200\/console \(to sign in: collet sign-in\)\n/)
  })

  it('passes flags to the server and prints its warnings', async () => {
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
  ])('prints for %s whether it listens on all addresses: %s', async (host, all) => {
    const io = new FakeIo(
      serving({ closes: 0 }, () => io.stop()),
      { workingFolder: folder },
    )
    expect(await io.run('serve', '--host', host)).toBe(0)
    expect(io.stdout.includes(`all addresses of this machine (${host})`)).toBe(all)
  })

  it('exits at once on the second stop request', async () => {
    const closing = Promise.withResolvers<void>()
    const io = new FakeIo(
      {
        startServer: async () => ({
          url: 'http://127.0.0.1:1',
          startTokenFile: '/data/start-token',
          warnings: [],
          readAgain: async () => ({ applied: [], needRestart: [], refused: [] }),
          announceStop: async () => {},
          isKeyed: false,
          sourceRead: async () => undefined,
          onSourceAdded: () => {},
          counts: () => ({ tools: 1, versions: 1, sources: 0, starting: [] }),
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
  ])('explains %s without a stack trace', async (_, error, code, message) => {
    const io = new FakeIo({ startServer: () => Promise.reject(error()) }, { workingFolder: folder })
    expect(await io.run('serve')).toBe(code)
    expect(io.stderr).toContain(message)
    expect(io.stderr).not.toContain(' at ')
  })

  it('starts nothing if the config or a tool is invalid, and reports every problem', async () => {
    write('collet.config.json', { tools: ['./add.mjs'], sever: {}, server: { prot: 1 } })
    const io = new FakeIo({}, { workingFolder: folder })
    expect(await io.run('serve')).toBe(2)
    expect(io.stderr).toContain('✗ collet.config.json: unknown key "sever". Did you mean "server"?')
    expect(io.stderr).toContain('✗ collet.config.json: server: unknown key "prot". Did you mean "port"?')
  })

  it('watches in a separate process, with the same flags', async () => {
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
    expect(await io.run('serve', '--watch', '--port', '0', '--allow-anonymous', '--open')).toBe(0)
    expect(starts).toEqual([['serve', '--port=0', '--allow-anonymous', '--open']])
    expect(io.stderr).toContain(`Watching ${folder}`)
  })

  function withCode(code: string, syscall = 'listen'): Error {
    return Object.assign(new Error(`${code}: it does not work`), { code, syscall })
  }
})
