import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, request, type Server } from 'node:http'
import { createServer as createPort } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { loadCommands } from '#cli/run'
import { createDatabase } from '../store/databases.ts'
import { readBlocks } from './markdown-blocks.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const PAGE = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8')
const SECTION = '## From one process to three replicas'
const LIMIT_MS = 180_000

let folder: string
let shell: Shell
let proxy: Server
let ports: readonly number[]
let apiKey = ''

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-operations-'))
  ports = await Promise.all([1, 2, 3, 4].map(freePort))
  proxy = await startProxy(portOf(0), [portOf(1), portOf(2), portOf(3)])
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(join(folder, 'collet.config.ts'), withPorts(CONFIG))
  shell = new Shell(folder, { DATABASE_URL: await createDatabase('collet') })
}, LIMIT_MS)

afterAll(async () => {
  for (const name of ['server', ...[1, 2, 3].map((index) => `replica-${portOf(index)}`)]) endProcess(name)
  await shell.end()
  proxy.closeAllConnections()
  proxy.close()
  rmSync(folder, { recursive: true, force: true })
})

/** Ends a process that the blocks started; on success the server of the first steps has ended already. */
function endProcess(name: string): void {
  const file = join(folder, `${name}.pid`)
  if (!existsSync(file)) return
  try {
    process.kill(Number(readFileSync(file, 'utf8')), 'SIGKILL')
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

/** Each writes a line for every run. `Slow.Write` runs until the test ends it; `Asked.Write` waits for an approval. */
const CONFIG = `import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { defineConfig, tool } from ${JSON.stringify(join(ROOT, 'src/index.ts'))}
const described = (id, policy, run) => tool({ id, description: 'For the test.', policy,
  input: { type: 'object', properties: { key: { type: 'string', description: 'Which.' } }, required: ['key'], additionalProperties: false },
  output: { type: 'string' }, run })
const effect = (key) => appendFileSync('effects', key + '\\n')
export default defineConfig({ server: { publicUrl: 'http://127.0.0.1:4100' }, tools: [
  described('Slow.Write@1.0.0', { safetyTier: 'write' }, async ({ key }) => { effect(key); while (!existsSync('finish')) await setTimeout(20); return 'wrote ' + key }),
  described('Quick.Write@1.0.0', { safetyTier: 'write' }, ({ key }) => { effect(key); return 'wrote ' + key }),
  described('Asked.Write@1.0.0', { safetyTier: 'write', approval: 'always' }, ({ key }) => { effect(key); return 'wrote ' + key }),
] })`

/** The document's ports are replaced by free ones. */
function portOf(index: number): number {
  return ports[index] ?? 0
}

function withPorts(text: string): string {
  return text.replaceAll(/\b410([0-3])\b/g, (_, index) => String(portOf(Number(index))))
}

/** The tools of PostgreSQL are not installed everywhere, or in another version; the other commands are run below. */
const NEEDS_TOOLS = /^(pg_dump|createdb) /
const RELOAD = 'collet reload --store "$DATABASE_URL"\n'
const ALSO_BELOW = ['collet backup before-the-move.db\n', 'collet journal verify\n', RELOAD]
/** Steps of a list; a whole change of the key is in test/cli/store-rekey.test.ts. */
const IN_LISTS = ['collet keys generate\n', 'collet store rekey\n']

it('every command of the page is run, or needs the tools of PostgreSQL', () => {
  const below = blocksOf(SECTION)
  const all = readBlocks('docs/operations.md').filter(({ language }) => language === 'sh')
  const others = all.map(({ text }) => withPorts(text)).filter((text) => !below.includes(text))
  expect(others.filter((text) => !NEEDS_TOOLS.test(text))).toEqual(ALSO_BELOW)
  const inLists = PAGE.matchAll(/^ {3}```sh\n {3}([\s\S]*?)^ {3}```$/gm)
  expect([...inLists].map(([, text]) => text)).toEqual(IN_LISTS)
})

it('every command that the page names exists, with its options', async () => {
  const commands = await loadCommands()
  const named = [...PAGE.matchAll(/`(?:npx )?(collet [a-z][^`]*)`/g)].map(([, text = '']) =>
    text.split(/\s+/).slice(1),
  )
  expect(named.length).toBeGreaterThan(15)
  const unknown = named.filter((words) => {
    const [found] = commands
      .filter(({ name }) => name.split(' ').every((word, at) => words[at] === word))
      .toSorted((one, other) => other.name.length - one.name.length)
    const options = words.filter((word) => word.startsWith('--')).map((word) => word.slice(2))
    const hasOption = (option: string) => option === 'json' || Object.hasOwn(found?.options ?? {}, option)
    return found === undefined || !options.every(hasOption)
  })
  expect(unknown).toEqual([])
})

/** The shell blocks of a section, in order. */
function blocksOf(section: string): readonly string[] {
  const from = PAGE.slice(0, PAGE.indexOf(`${section}\n`)).split('\n').length
  return readBlocks('docs/operations.md')
    .filter(({ language, line }) => language === 'sh' && line > from)
    .map(({ text: block }) => withPorts(block))
}

interface Answer {
  readonly status: number
  readonly body: string
}

/** A call through the proxy, or to one replica. */
async function call(tool: string, key: string, port = portOf(0)): Promise<Answer> {
  const body = JSON.stringify({ request: { call_id: key, tool_id: tool, input: { key } } })
  const response = await fetch(`http://127.0.0.1:${port}/tools/call`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      host: `127.0.0.1:${port}`,
      authorization: `Bearer ${apiKey}`,
    },
    body,
  })
  return { status: response.status, body: await response.text() }
}

it(
  'takes a newcomer from one process to three replicas, and no call is lost or run twice',
  async () => {
    const [serve = '', create, backUp = '', stop = '', copy = '', start = '', look = '', ...others] =
      blocksOf(SECTION)
    expect(others).toEqual([])
    // The database is there already: not every machine that runs this has the tools of PostgreSQL.
    expect(create).toContain('createdb')

    apiKey = /clt_[\w-]+/.exec(await shell.run(serve))?.[0] ?? ''
    expect(await call('Quick.Write', 'before')).toMatchObject({
      status: 200,
      body: expect.stringContaining('wrote before'),
    })
    expect((await call('Asked.Write', 'asked')).body).toContain('approv')
    // A database of a test may have fsync off, and the last command says so.
    const examined = await shell.run(`${backUp.trimEnd()} || true`)
    expect(examined).toMatch(/COLLET_KEY has 32 bytes[\s\S]*PostgreSQL \d+.*UTF8[\s\S]*will be created/)
    const running = call('Slow.Write', 'running')
    await until(() => effects().includes('running'))
    const stopping = shell.run(stop)
    await until(async () => (await healthOf(portOf(1))) !== 200)
    const waiting = call('Quick.Write', 'waiting')
    writeFileSync(join(folder, 'finish'), '')
    expect((await running).body).toContain('wrote running')
    expect(await stopping).toContain('Slow.Write')

    expect(await shell.run(copy)).toContain('counted and checked')
    await shell.run(start)
    expect(await waiting).toMatchObject({ status: 200, body: expect.stringContaining('wrote waiting') })
    for (const port of [1, 2, 3].map(portOf)) {
      await until(async () => (await healthOf(port)) === 200)
      for (const key of ['before', 'running', 'waiting']) {
        const tool = key === 'running' ? 'Slow.Write' : 'Quick.Write'
        expect((await call(tool, key, port)).body).toContain(`wrote ${key}`)
      }
    }
    const list = await shell.run('collet approvals list --json --store "$DATABASE_URL"')
    const id = /"id":"([^"]+)"/.exec(list.replaceAll(/"\s*:\s*"/g, '":"'))?.[1]
    await shell.run(`collet approvals approve ${id} --store "$DATABASE_URL"`)
    expect((await call('Asked.Write', 'asked')).body).toContain('wrote asked')

    expect(await shell.run(look)).toContain('Quick.Write')
    expect(effects().toSorted()).toEqual(['asked', 'before', 'running', 'waiting'])

    expect(await shell.run(RELOAD)).toContain('were asked')
    for (const port of [1, 2, 3].map(portOf))
      await until(() =>
        readFileSync(join(folder, `replica-${port}.log`), 'utf8').includes(
          'Read the config again: nothing to change.',
        ),
      )
    const [generate = '', rotate = ''] = IN_LISTS.map((text) => text.trim())
    const keys = `COLLET_KEY_OLD="$COLLET_KEY" COLLET_KEY="$(${generate})"`
    // The replicas run without the new key, and the command says so.
    expect(await shell.run(`${keys} ${rotate} --store "$DATABASE_URL" || true`)).toMatch(
      /without the new key/,
    )
  },
  LIMIT_MS,
)

function effects(): readonly string[] {
  const file = join(folder, 'effects')
  return existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : []
}

async function healthOf(port: number): Promise<number> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/health`)
    await response.arrayBuffer()
    return response.status
  } catch {
    return 0
  }
}

async function until(isSo: () => boolean | Promise<boolean>, limitMs = LIMIT_MS): Promise<void> {
  const endMs = performance.now() + limitMs
  while (!(await isSo())) {
    if (performance.now() > endMs) throw new Error('it never came to that')
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

/** One shell for all blocks, so that later blocks see exported variables. */
class Shell {
  readonly #child: ChildProcess
  #output = ''
  #blocks = 0

  constructor(cwd: string, env: Readonly<Record<string, string>>) {
    const path = `${join(import.meta.dirname, 'bin')}:${dirname(process.execPath)}:${process.env.PATH}`
    this.#child = spawn('sh', [], { cwd, env: { ...process.env, ...env, PATH: path, NO_COLOR: '1' } })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk: Buffer) => {
        this.#output += chunk.toString()
      })
    }
  }

  /** Runs a block and returns its output; throws if its last command fails. */
  async run(block: string): Promise<string> {
    this.#blocks += 1
    const mark = `ended ${this.#blocks} with`
    const from = this.#output.length
    this.#child.stdin?.write(`${block}\necho "${mark} $?"\n`)
    await until(() => this.#output.includes(mark, from))
    const output = this.#output.slice(from)
    if (!output.includes(`${mark} 0`)) throw new Error(`${block}\n${output}`)
    return output
  }

  async end(): Promise<void> {
    const ended = once(this.#child, 'exit')
    this.#child.stdin?.end()
    await ended
  }
}

/** Replaces Caddy: polls health, holds calls while no server runs, and repeats nothing that reached a server. */
async function startProxy(port: number, upstreams: readonly number[]): Promise<Server> {
  const server = createServer(async (incoming, outgoing) => {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk)
    let chosen: number | undefined
    await until(async () => {
      const healthy = await Promise.all(upstreams.map(async (one) => (await healthOf(one)) === 200))
      chosen = upstreams.find((_, index) => healthy[index])
      return chosen !== undefined
    })
    const { method, url: path } = incoming
    // Caddy adds this one, by which a server without keys would refuse the request.
    const headers = { ...incoming.headers, 'x-forwarded-for': '127.0.0.1' }
    const sent = request({ host: '127.0.0.1', port: chosen, method, path, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(outgoing)
    })
    sent.on('error', () => outgoing.destroy())
    sent.end(Buffer.concat(chunks))
  }).listen(port, '127.0.0.1')
  await once(server, 'listening')
  return server
}

async function freePort(): Promise<number> {
  const probe = createPort().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  probe.close()
  await once(probe, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}
