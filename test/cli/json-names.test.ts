import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { loadCommands } from '#cli/run'
import { readEnvironment } from '#config/environment'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { sampleCall } from '../contracts/samples.ts'
import { chunks, FakeIo } from './fake-io.ts'

/**
 * Every command runs with `--json` on one store, most of them beside a server, and no member name that it prints has an upper-case
 * letter. Rows run in order, because later rows use results of earlier ones.
 */

/** Commands whose standard output belongs to another specification. */
const OTHER_FORMATS = ['mcp', 'opentool', 'opentool export', 'export']
/** Members that hold data under names that callers, authors or other formats chose. */
const DATA = new Set(['input_schema', 'output_schema', 'model', 'entry', 'sources'])

const KEY = Buffer.alloc(32, 9).toString('base64')
const hook = createServer((_request, response) => response.writeHead(204).end())

/** `init` builds nothing here. */
const SERVICES = { ...REAL_SERVICES, packageBuild: async () => undefined }

let folder: string
let serving: { readonly io: FakeIo; readonly ended: Promise<number> }
/** Values that rows take from the answers of earlier rows. */
const known = new Map<string, string>()

const document = (summary: string) => ({
  openapi: '3.1.0',
  info: { title: 'Shop', version: '1' },
  servers: [{ url: 'https://shop.example' }],
  paths: { '/a': { get: { operationId: 'a', summary, responses: { 200: { description: 'ok' } } } } },
})

const tool = (id: string, policy: string, run: string) =>
  `{ [Symbol.for('collet.tool')]: true, id: '${id}@1.0.0', description: 'For tests.', input: { type: 'object' },
     output: {}, policy: ${policy}, run: ${run} }`

const config = (hookUrl: string) => `export default {
  store: 'sqlite:collet.db',
  tools: [${tool('Crm.Find', "{ safetyTier: 'read' }", '() => 1')},
    ${tool('Crm.Send', "{ safetyTier: 'write', approval: 'always' }", '() => 1')},
    ${tool('Crm.Break', "{ safetyTier: 'write' }", "() => { throw new Error('Broken.') }")}],
  log: { level: 'silent' },
  toolsets: { crm: { include: ['Crm.*'] } },
  budgets: [{ for: 'tenant', window: '1h', calls: 100 }],
  webhooks: [{ url: '${hookUrl}', secret: 'a-secret-of-32-bytes-or-more-0123', events: ['approval.requested'] }],
  egress: { allow: ['127.0.0.1'] },
  oauth: { providers: { github: { authorizationEndpoint: 'https://github.example/a', tokenEndpoint: 'https://github.example/t',
    clientId: 'id', clientSecret: 'secret' } } },
}`

async function collet(argv: readonly string[], stdin = '') {
  const environment = readEnvironment({ COLLET_KEY: KEY, HOME: folder })
  const io = new FakeIo(SERVICES, {
    ...{ workingFolder: folder, environment, clock: SYSTEM_CLOCK, stdin: chunks(stdin) },
  })
  const code = await io.run(...argv, '--json')
  return { code, stdout: io.stdout, stderr: io.stderr }
}

/** Leaves a call whose server died: the next one makes it ambiguous. */
async function cutCall(path: string): Promise<void> {
  const store = openSqliteStore({ path, masterKey: Buffer.from(KEY, 'base64') })
  await store.claim(sampleCall({ tool: 'Crm.Break@1.0.0' }))
  await store.close()
  const database = new DatabaseSync(path)
  database.exec('UPDATE writers SET ended_at = NULL')
  database.close()
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-json-'))
  await new Promise<void>((resolve) => hook.listen(0, '127.0.0.1', resolve))
  const address = hook.address()
  const port = typeof address === 'object' ? address?.port : 0
  writeFileSync(join(folder, 'collet.config.mjs'), config(`http://127.0.0.1:${port}/hook`))
  writeFileSync(join(folder, 'shop.json'), JSON.stringify(document('One.')))
  await cutCall(join(folder, 'collet.db'))
  const io = new FakeIo(SERVICES, {
    ...{ workingFolder: folder, environment: readEnvironment({ COLLET_KEY: KEY }), clock: SYSTEM_CLOCK },
  })
  const ended = io.run('serve', '--port', '0', '--json')
  serving = { io, ended }
  await vi.waitFor(() => expect(io.stdout + io.stderr).toContain('\n'), { timeout: 10_000 })
  expect(io.stderr).toBe('')
  known.set('url', JSON.parse(io.stdout).url)
})

afterAll(async () => {
  serving.io.stop()
  await serving.ended
  hook.close()
  rmSync(folder, { recursive: true })
})

interface Row {
  readonly command: string
  readonly words?: readonly string[]
  readonly stdin?: string
  /** The exit code; 0 unless given. */
  readonly code?: number
  /** Saves the value of a member under a name; `$NAME` in a later row refers to it. */
  readonly keep?: readonly [member: string, name: string]
}

const AT = ['--url', '$url'] as const
const ROWS: readonly Row[] = [
  { command: 'init', words: ['made'] },
  { command: 'dev', words: ['--check'] },
  { command: 'version' },
  { command: 'call', words: ['Crm.Find', '{}', '--call-id', 'find-1', ...AT] },
  { command: 'call', words: ['Crm.Break', '{}', '--call-id', 'break-1', ...AT], code: 1 },
  { command: 'call', words: ['Crm.Send', '{}', '--call-id', 'send-1', ...AT], code: 3 },
  { command: 'call', words: ['Crm.Send', '{}', '--call-id', 'send-2', ...AT], code: 3 },
  { command: 'call', words: ['Crm.None', '{}', ...AT], code: 2 },
  { command: 'calls', words: ['--tool', 'Crm.Find'], keep: ['record', 'record'] },
  { command: 'calls', words: ['--state', 'rejected'] },
  { command: 'calls errors', words: [] },
  { command: 'calls conversation', words: ['--run', 'run_$record'] },
  { command: 'calls show', words: ['$record'] },
  { command: 'calls result', words: ['find-1', ...AT] },
  { command: 'calls', words: ['--state', 'ambiguous'], keep: ['record', 'unsettled'] },
  { command: 'calls settle', words: ['$unsettled', '--as', 'not-run', '--why', 'I looked.'] },
  { command: 'calls cancel', words: ['find-1', ...AT] },
  { command: 'overview' },
  { command: 'usage' },
  { command: 'budgets' },
  { command: 'approvals list', words: [...AT], keep: ['id', 'first'] },
  { command: 'approvals show', words: ['$first'] },
  { command: 'approvals link', words: ['$first', '--for', 'ann', ...AT] },
  { command: 'rules add', words: ['$first', '--preview'] },
  { command: 'rules add', words: ['$first', '--uses', '3'], keep: ['id', 'rule'] },
  { command: 'rules list', words: [...AT] },
  { command: 'rules revoke', words: ['$rule'] },
  { command: 'approvals approve', words: ['$first'] },
  { command: 'approvals list', words: ['--state', 'pending'], keep: ['id', 'second'] },
  { command: 'approvals reject', words: ['$second', '--reason', 'no'] },
  { command: 'sign-in', words: [...AT] },
  { command: 'import', words: ['shop.json', '--key', 'Shop', '--print', '--yes'] },
  { command: 'import', words: ['shop.json', '--key', 'Shop', '--yes', ...AT] },
  { command: 'import', words: ['shop.json', '--key', 'Shop', '--yes', ...AT] },
  { command: 'sources', words: [...AT] },
  { command: 'sources check', words: ['Shop', ...AT] },
  { command: 'sources set', words: ['Shop', '--approval', 'always', ...AT] },
  { command: 'sources refresh', words: ['Shop', ...AT] },
  { command: 'tools', words: [...AT] },
  { command: 'tools show', words: ['Crm.Find', ...AT] },
  { command: 'toolsets', words: [...AT] },
  { command: 'types', words: [...AT] },
  { command: 'types', words: ['-o', 'tools.d.ts', ...AT] },
  { command: 'pins list', words: ['--all'], keep: ['tool', 'pinned'] },
  { command: 'pins diff', words: ['$pinned'] },
  { command: 'pins accept', words: ['--all', '--source', 'Shop'] },
  { command: 'pins reject', words: ['$pinned'], code: 2 },
  { command: 'sources remove', words: ['Shop', ...AT] },
  { command: 'connect', words: ['cursor'] },
  { command: 'connect', words: ['cursor', '--write', '--yes'] },
  { command: 'secrets set', words: ['TOKEN', '--principal', 'key:ann'], stdin: 'x', keep: ['ref', 'ref'] },
  { command: 'secrets list' },
  { command: 'secrets connect', words: ['github', '--principal', 'key:ann', ...AT] },
  { command: 'secrets rm', words: ['$ref'] },
  { command: 'vault rotate' },
  { command: 'webhooks' },
  { command: 'webhooks test' },
  { command: 'reload', words: [...AT] },
  { command: 'audit' },
  { command: 'journal' },
  { command: 'journal verify' },
  { command: 'journal heads' },
  { command: 'journal receipt', words: ['$record'] },
  { command: 'journal receipt', words: ['$record', '--out', 'receipt.jsonl'] },
  { command: 'verify', words: ['receipt.jsonl'], code: 2 },
  { command: 'journal keys' },
  { command: 'journal keys rotate' },
  { command: 'keys generate' },
  { command: 'keys create', words: ['ann'], keep: ['key_id', 'key'] },
  { command: 'keys rotate', words: ['ann'] },
  { command: 'keys list' },
  { command: 'keys revoke', words: ['$key'] },
  { command: 'keys revoke', words: ['--principal', 'ann'] },
  { command: 'backup', words: ['copy.db'] },
  { command: 'migrate', words: ['--dry-run'] },
  { command: 'store copy', words: ['sqlite:copy.db', 'sqlite:other.db'] },
  { command: 'store rekey', words: ['--status'] },
  { command: 'opentool validate', words: ['shop.json'], code: 1 },
  { command: 'doctor' },
]

describe('--json', () => {
  it('of the server that the other rows use', () => {
    expect(wrongNames(JSON.parse(serving.io.stdout))).toEqual([])
  })

  it('has a row for every command', async () => {
    const rows = new Set([...ROWS.map(({ command }) => command), 'serve', ...OTHER_FORMATS])
    const names = (await loadCommands()).map(({ name }) => name)
    expect(names.filter((name) => !rows.has(name))).toEqual([])
  })

  for (const { command, words = [], stdin, code = 0, keep } of ROWS) {
    it(`of collet ${[command, ...words].join(' ')}`, async () => {
      const argv = words.map((word) => (word.startsWith('$') ? (known.get(word.slice(1)) ?? word) : word))
      const ended = await collet([...command.split(' '), ...argv], stdin)
      expect(ended).toMatchObject({ code })
      const printed = ended.stdout
        .trim()
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line))
      expect(printed.flatMap(wrongNames)).toEqual([])
      if (keep !== undefined) known.set(keep[1], [printed].flat(2)[0]?.[keep[0]] ?? '')
    })
  }
})

function wrongNames(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(wrongNames)
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) => [
    ...(name === name.toLowerCase() ? [] : [name]),
    ...(DATA.has(name) ? [] : wrongNames(member)),
  ])
}
