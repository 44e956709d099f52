import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { Services } from '#cli/io'
import { readEnvironment } from '#config/environment'
import type { Settings } from '#config/settings'
import type { OpenToolServing } from '#protocols/opentool/call-routes'
import { validate } from '#protocols/opentool/index'
import { VERSION } from '#server/version'
import { readOpentoolLines } from '../conformance/opentool-vectors.ts'
import { FakeIo } from './fake-io.ts'

const vectorShape = z.strictObject({
  id: z.string(),
  kind: z.literal('cli'),
  rule: z.string(),
  argv: z.array(z.string()),
  expect: z.strictObject({
    exit: z.number().optional(),
    stdoutHas: z.array(z.string()).default([]),
    sameAs: z.array(z.string()).optional(),
    serves: z
      .strictObject({
        port: z.union([z.number(), z.literal('default')]),
        keys: z.array(z.string()),
        version: z.string().optional(),
      })
      .optional(),
  }),
  why: z.string(),
  basis: z.string(),
})
const vectors = readOpentoolLines('cli').map((line) => vectorShape.parse(line))

interface Started {
  settings?: Settings
  opentool?: OpenToolServing | undefined
}

const TOOL = `{ [Symbol.for('collet.tool')]: true, id: 'T.A@1.0.0', name: 'a', description: 'D.', policy: { scopes: ['a:b'] },
  input: { type: 'object', properties: { n: { type: 'integer', minimum: 1, description: 'N.' } } }, output: { type: 'string' }, run: () => 'x' }`

describe('collet opentool', () => {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-'))
    writeFileSync(
      join(folder, 'collet.config.mjs'),
      `export default { tools: [${TOOL}], server: { port: 4200 } }`,
    )
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  async function run(argv: readonly string[], environment: Record<string, string> = {}) {
    const started: Started = {}
    const services: Partial<Services> = {
      startServer: async (settings, { protocols }) => {
        Object.assign(started, { settings, opentool: protocols?.opentool ?? {} })
        setImmediate(() => io.stop())
        return {
          url: 'http://127.0.0.1:1',
          startTokenFile: '/t',
          warnings: [],
          readAgain: async () => ({ applied: [], needRestart: [], refused: [] }),
          announceStop: async () => {},
          isKeyed: false,
          sourceRead: async () => undefined,
          onSourceAdded: () => {},
          counts: () => ({ tools: 1, versions: 1, sources: 0, starting: [] }),
          close: async () => undefined,
        }
      },
    }
    const io = new FakeIo(services, { workingFolder: folder, environment: readEnvironment(environment) })
    const exit = await io.run('opentool', ...argv)
    const keys = started.settings?.auth.apiKeys.map(({ key }) => key.reveal())
    return { exit, io, keys, ...started }
  }

  it.each(vectors.map((vector) => [vector.id, vector.rule, vector.why, vector] as const))(
    '%s (%s): %s',
    async (_id, _rule, _why, { argv, expect: wanted }) => {
      const { exit, io, settings, keys } = await run(argv)
      if (wanted.exit !== undefined) expect(exit).toBe(wanted.exit)
      for (const text of wanted.stdoutHas) expect(io.stdout).toContain(text)
      if (wanted.sameAs !== undefined) expect(io.stdout).toBe((await run(wanted.sameAs)).io.stdout)
      if (wanted.serves === undefined) return expect(settings).toBeUndefined()
      const { port, version } = wanted.serves
      expect([settings?.server.port, keys]).toEqual([port === 'default' ? 9627 : port, wanted.serves.keys])
      if (version !== undefined) expect(settings?.opentool.version).toBe(version)
    },
  )

  it('OTS-71, OTS-73, OTS-74: the help follows the guidelines', async () => {
    const { io } = await run(['-h'])
    expect(io.stdout.split('\n').slice(0, 10)).toEqual([
      `COLLET OpenTool Server CLI (${VERSION}) - OpenTool Server implement by COLLET.`,
      '',
      'Usage: collet opentool <command> [options]',
      '',
      'Available commands:',
      '',
      'Command: start',
      expect.stringMatching(/^ {2}-v, --version .*Default: /),
      expect.stringMatching(/^ {2}-t, --toolPort .*Default: 9627$/),
      expect.stringMatching(/^ {2}-k, --apiKeys .*Default: /),
    ])
    expect(io.stdout).toMatch(/\n\nGlobal options:\n\n-h, --help {4}Show help information\n$/)
    for (const argv of [['start', '-h'], ['help'], ['start', '--help', '-t', '1']])
      expect((await run(argv)).io.stdout).toBe(io.stdout)
  })

  it('OTS-70, OTS-72: starts with defaults if there are no arguments; -v prints what /version returns', async () => {
    const plain = await run([])
    expect([plain.exit, plain.settings?.server, plain.keys]).toMatchObject([
      0,
      { port: 9627, host: '127.0.0.1' },
      [],
    ])
    expect(plain.settings?.opentool.version).toBeUndefined()
    const reported = await run(['start', '-v', '2.0.0', '-t', '9700', '-k', 'A', '-k', 'B,C'])
    expect([reported.settings?.server.port, reported.settings?.opentool.version, reported.keys]).toEqual([
      9700,
      '2.0.0',
      ['A', 'B,C'],
    ])
    expect(reported.io.stdout).toContain('Collet serves 1 tool')
  })

  it('OTS-47: ignores empty and repeated keys; all keys are one principal that may call every tool', async () => {
    const { settings } = await run(['start', '-k', '', '-k', ' ', '-k', 'A', '-k', 'A', '-k', 'B'])
    expect(settings?.auth.apiKeys).toMatchObject([
      { id: 'opentool', tenant: 'default', scopes: ['a:b'] },
      { id: 'opentool', tenant: 'default', scopes: ['a:b'] },
    ])
  })

  it('OTS-56: accepts the options with which the daemon launches servers, without the word start', async () => {
    const argv = [
      '--opentoolServerTag',
      '3.1.0',
      '--opentoolServerHost',
      '127.0.0.2',
      '--opentoolServerPort',
      '17001',
      '--opentoolServerApiKeys',
      'A,B',
    ]
    const { settings, keys } = await run(argv)
    expect([settings?.server, settings?.opentool.version, keys]).toMatchObject([
      { host: '127.0.0.2', port: 17001 },
      '3.1.0',
      ['A', 'B'],
    ])
  })

  it('OTS-76: also reads keys from the environment, where other users do not see them', async () => {
    const environment = { COLLET_OPENTOOL_KEYS: 'A, B,' }
    expect((await run([], environment)).keys).toEqual(['A', 'B'])
    expect((await run(['-k', 'C'], environment)).keys).toEqual(['C'])
  })

  it.each([
    [['start', '--toolPort', '0']],
    [['start', '-t', '65536']],
    [['start', '-t', '-1']],
    [['start', '-t', '1e3']],
    [['start', '--nope']],
    [['start', 'more']],
    [['start', '-t']],
    [['-k', 'a b']],
  ])('OTS-75, OTS-76: %j is a usage error: exit code 64, prints the help, starts nothing', async (argv) => {
    const { exit, io, settings } = await run(argv)
    expect([exit, settings]).toEqual([64, undefined])
    expect(io.stdout).toContain('Command: start')
    expect(io.stderr).toMatch(/^✗ \S/)
    expect(io.stderr).not.toContain('a b')
  })

  it('OTS-75: names an unknown command, exit code 1', async () => {
    const { exit, io } = await run(['sta\u001brt'])
    expect([exit, io.stderr]).toEqual([1, '✗ Unknown command: sta\\u001brt\n'])
  })

  it('OTS-50, OTS-53: extensions are off by default', async () => {
    const plain = await run([])
    expect([plain.settings?.opentool.streaming, plain.opentool]).toEqual([false, {}])
    const reported = await run(['--stream', '--allowStop', '-k', 'A'])
    expect([reported.settings?.opentool.streaming, reported.opentool]).toEqual([
      true,
      { stop: expect.any(Function) },
    ])
  })

  it('OTS-32, OTS-50: the config applies unless the command line overrides it', async () => {
    const opentool = "{ title: 'Sums', version: '4.0.0', description: 'D.', streaming: true }"
    writeFileSync(
      join(folder, 'collet.config.mjs'),
      `export default { tools: [${TOOL}], opentool: ${opentool} }`,
    )
    const kept = { title: 'Sums', description: 'D.', streaming: true, stringIdsAreKeys: false }
    expect((await run([])).settings?.opentool).toEqual({ ...kept, version: '4.0.0' })
    expect((await run(['-v', '5.0.0'])).settings?.opentool).toEqual({ ...kept, version: '5.0.0' })
    const exported = await run(['export'])
    expect(JSON.parse(exported.io.stdout).info).toEqual({
      title: 'Sums',
      version: '4.0.0',
      description: 'D.',
    })
    const renamed = await run(['export', '--title', 'Mine', '--version', '6'])
    expect(JSON.parse(renamed.io.stdout).info).toEqual({ title: 'Mine', version: '6', description: 'D.' })
  })

  it('OTS-55: registers with no daemon, so no key leaves the process', async () => {
    const { exit } = await run(['-k', 'A'])
    // FakeIo has no fetch: a request of any kind would have failed the command.
    expect(exit).toBe(0)
  })

  it('reports problems of the config, as serve does', async () => {
    writeFileSync(join(folder, 'collet.config.mjs'), 'export default { sever: 1 }')
    const { exit, io } = await run([])
    expect([exit, io.stderr]).toEqual([2, expect.stringContaining('unknown key "sever"')])
  })

  describe('validate', () => {
    const write = (name: string, content: unknown) =>
      writeFileSync(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content))
    const document = { opentool: '1.1.0', info: { title: 't', version: '1' }, functions: [] }

    it('OTS-25: reports every problem of every file, and fails if one has an error', async () => {
      write('good.json', document)
      write('bad.json', { ...document, functions: [{ name: 'a b', description: 1 }] })
      const good = await run(['validate', 'good.json'])
      expect([good.exit, good.io.stdout, good.io.stderr]).toEqual([0, '', 'good.json: valid\n'])
      const both = await run(['validate', 'good.json', 'bad.json'])
      expect(both.exit).toBe(1)
      expect(both.io.stdout).toContain('bad.json: /functions/0/name: error OTS-07: ')
      expect(both.io.stdout).toContain('bad.json: /functions/0/parameters: error OTS-09: ')
    })

    it('repairs what it can with --lenient, and prints JSON', async () => {
      write('theirs.json', { ...document, functions: [{ name: 'a b', parameters: [] }] })
      const { exit, io } = await run(['validate', '--lenient', '--json', 'theirs.json'])
      expect([exit, JSON.parse(io.stdout)]).toMatchObject([
        0,
        { file: 'theirs.json', valid: true, findings: [{ level: 'warning' }, {}] },
      ])
    })

    it('OTS-01: reports the position of a JSON error, and a missing file', async () => {
      write('broken.json', '{"opentool":')
      expect((await run(['validate', 'broken.json'])).io.stdout).toContain('error OTS-01')
      expect((await run(['validate', 'none.json'])).exit).toBe(2)
      expect((await run(['validate'])).exit).toBe(2)
    })
  })

  describe('export', () => {
    it('prints a document that passes strict validation', async () => {
      const { exit, io } = await run([
        'export',
        '--title',
        'Mine',
        '--version',
        '2.0.0',
        '--description',
        'D',
        '--url',
        'http://h:1',
      ])
      const document = JSON.parse(io.stdout)
      expect([exit, validate(document)]).toEqual([0, []])
      expect(document).toMatchObject({
        info: { title: 'Mine', version: '2.0.0', description: 'D' },
        server: { url: 'http://h:1' },
        functions: [{ name: 'a', return: { name: 'result' } }],
      })
    })

    it('OTS-83: reports inexact conversions, and fails on them on request', async () => {
      const loose = TOOL.replace("output: { type: 'string' }", 'output: {}')
      writeFileSync(join(folder, 'collet.config.mjs'), `export default { tools: [${loose}] }`)
      const { exit, io } = await run(['export', '--json'])
      expect([exit, io.stdout.split('\n')]).toEqual([0, [expect.stringContaining('"functions"'), '']])
      expect(io.stderr).toContain('! T.A@1.0.0: output')
      expect((await run(['export', '--strict'])).exit).toBe(1)
    })
  })
})
