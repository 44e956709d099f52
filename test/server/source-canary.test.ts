import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, it, onTestFinished } from 'vitest'
import type { Settings } from '#config/settings'
import { type RunningServer, startServer } from '#server/start-server'
import { createLog } from '#server/telemetry/log'
import { faulty } from '../sources/fault-mcp.ts'
import { createDatabase, query } from '../store/databases.ts'
import { startProxy } from '../store/postgres-proxy.ts'
import { egressTo, sqliteSettings, testSettings } from '../test-settings.ts'

/** Every place in the options of a source, or in a probed target, where users put credentials. */
const KINDS = ['argument', 'password', 'variable', 'header', 'query', 'path', 'word', 'program'] as const
const CANARY = Object.fromEntries(KINDS.map((kind) => [kind, `canary-${kind}-${'x'.repeat(6)}`])) as Record<
  (typeof KINDS)[number],
  string
>

/** A service that refuses every request except for its description. */
async function startService(): Promise<string> {
  const service = createServer((request, response) => {
    const isDescription = request.url?.includes('/openapi.json') === true
    response.writeHead(isDescription ? 200 : 404, { 'content-type': 'application/json' })
    response.end(isDescription ? JSON.stringify(DESCRIPTION) : '{}')
  })
  await new Promise<void>((done) => service.listen(0, '127.0.0.1', done))
  onTestFinished(() => void service.close())
  const address = service.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
}

const DESCRIPTION = {
  openapi: '3.0.0',
  info: { title: 'Sample', version: '1' },
  servers: [{ url: `/${CANARY.path}/api` }],
  paths: { '/things': { get: { operationId: 'things', responses: { 200: { description: 'ok' } } } } },
}

async function ask({ url, startTokenFile }: RunningServer, path: string, body: object): Promise<string> {
  const response = await fetch(`${url}/admin/${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${readFileSync(startTokenFile, 'utf8').trim()}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify(body),
  })
  return `${response.status} ${await response.text()}`
}

/** Adds, changes, probes and removes sources of every kind, with a credential in every place. */
async function exerciseSources(server: RunningServer, service: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'collet-canary-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const { command, args } = faulty('none', [join(folder, 'starts')])
  const secretArgs = [`--api-key=${CANARY.argument}`, `postgresql://app:${CANARY.password}@db/x`]
  const program = { type: 'mcp', command, env: { TOKEN: CANARY.variable } }
  const address = `${service}/${CANARY.path}/openapi.json?key=${CANARY.query}`
  const sources = {
    Program: { ...program, args: [...args, ...secretArgs] },
    Broken: { ...program, command: '/nonexistent', args: secretArgs },
    Worded: { ...program, command: `/nonexistent --token=${CANARY.program}` },
    Assigned: { ...program, command: `TOKEN=${CANARY.program}` },
    Server: { type: 'mcp', url: address, headers: { authorization: `Bearer ${CANARY.header}` } },
    Api: { type: 'openapi', url: address, headers: { authorization: `Bearer ${CANARY.header}` } },
    Otc: { type: 'otc', url: `${service}/${CANARY.path}`, apiKey: CANARY.header },
    OpenTool: { type: 'opentool', url: `${service}/${CANARY.path}`, token: CANARY.header },
    Command: {
      type: 'command',
      isolation: 'none',
      commands: {
        say: {
          description: 'Says.',
          argv: [process.execPath, '-e', '1', `--token=${CANARY.word}`],
          env: { TOKEN: CANARY.variable },
          input: { type: 'object' },
        },
      },
    },
  }
  for (const [key, options] of Object.entries(sources))
    expect(await ask(server, 'sources', { key, options })).toMatch(/^201 /)
  for (const target of [
    address,
    [command, ...args, ...secretArgs].join(' '),
    `/nonexistent ${secretArgs.join(' ')}`,
    `postgresql://app:${CANARY.password}@db/x`,
    `'/nonexistent --token=${CANARY.program}'`,
    `TOKEN=${CANARY.program} /nonexistent`,
  ])
    await ask(server, 'sources/probe', { target })
  for (const key of Object.keys(sources)) {
    await ask(server, `sources/${key}/check`, {})
    await ask(server, `sources/${key}/refresh`, {})
    await ask(server, `sources/${key}/set`, { changes: { policy: { approval: 'always' } } })
  }
  // Definitions of a changed program wait for a decision.
  const changed = { ...sources.Program, args: [...args, '--other', ...secretArgs] }
  expect(await ask(server, 'sources', { key: 'Program', options: changed, replace: true })).toMatch(/^201 /)
}

async function start(settings: Settings, lines: string[]): Promise<RunningServer> {
  const log = createLog('debug', { write: (line) => lines.push(line) })
  return await startServer(
    { ...settings, logLevel: 'debug', egress: egressTo('127.0.0.1') },
    { graceMs: 0, log },
  )
}

function expectClean(places: Readonly<Record<string, string>>): void {
  const found = Object.entries(places).flatMap(([place, text]) =>
    Object.values(CANARY)
      .filter((canary) => text.includes(canary))
      .map((canary) => `${canary} in ${place}`),
  )
  expect(found).toEqual([])
}

it('credentials of sources are in no table, log, write-ahead log or backup of SQLite', async () => {
  const settings = sqliteSettings()
  onTestFinished(() => rmSync(settings.dataFolder, { recursive: true }))
  const lines: string[] = []
  const server = await start(settings, lines)
  onTestFinished(() => server.close())
  await exerciseSources(server, await startService())
  const files = Object.fromEntries(
    readdirSync(settings.dataFolder, { withFileTypes: true })
      .flatMap((entry) => (entry.isFile() ? [entry.name] : []))
      .map((name) => [name, readFileSync(join(settings.dataFolder, name), 'latin1')]),
  )
  expect(Object.keys(files)).toContain('collet.db-wal')
  const backup = join(settings.dataFolder, 'copy.db')
  new DatabaseSync(join(settings.dataFolder, 'collet.db')).prepare('VACUUM INTO ?').run(backup)
  expectClean({ ...files, backup: readFileSync(backup, 'latin1'), log: lines.join('\n') })
  expect(lines.length).toBeGreaterThan(20)
})

it('credentials of sources are in no table, log or network traffic of PostgreSQL', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'collet-canary-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const url = await createDatabase('source_canary')
  const proxy = await startProxy(url)
  onTestFinished(() => proxy.close())
  const wire: string[] = []
  proxy.heard = (chunk) => wire.push(chunk.toString('latin1'))
  const lines: string[] = []
  const settings = testSettings({ dataFolder: folder, store: proxy.url, masterKey: Buffer.alloc(32, 7) })
  const server = await start(settings, lines)
  onTestFinished(() => server.close())
  await exerciseSources(server, await startService())
  const tables = await query<{ name: string }>(
    url,
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'",
  )
  const dumps: Record<string, string> = {}
  for (const { name } of tables) dumps[name] = JSON.stringify(await query(url, `SELECT * FROM ${name}`))
  expect(Object.keys(dumps)).toContain('pins')
  expectClean({ ...dumps, wire: wire.join(''), log: lines.join('\n') })
})
