/**
 * Installs public MCP servers from npm into a folder, and compares each directly and through Collet, member by member.
 * Outside of CI: `npm run interop -- [--folder DIR] [--workers N] [--write] [NAME …]`.
 * The servers run without a network if the machine permits it (`unshare`), with an empty home and invented credentials.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { z } from 'zod'
import { startServer } from '#server/start-server'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { testSettings } from '../test-settings.ts'
import { compareReadings, type Difference, type Reading, readServer } from './compare-server.ts'
import { replacePart } from './page.ts'
import { CREDENTIALS, PUBLIC_SERVERS, type PublicServer } from './public-servers.ts'
import { renderServers, type ServerRow } from './servers-table.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { folder: { type: 'string' }, write: { type: 'boolean' }, workers: { type: 'string' } },
})
const root = values.folder ?? mkdtempSync(join(tmpdir(), 'collet-public-servers-'))
const hasUnshare = spawnSync('unshare', ['-rn', 'true']).status === 0
const say = (line: string): void => void process.stdout.write(`${line}\n`)

interface Installed {
  readonly version: string
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

const packageShape = z.object({
  version: z.string(),
  bin: z.union([z.string(), z.record(z.string(), z.string())]).optional(),
})

function install({ name, bin, args = [], env = {} }: PublicServer): Installed {
  const folder = join(root, name.replaceAll(/[^A-Za-z0-9.-]/g, '_'))
  const place = join(folder, 'node_modules', name)
  if (!existsSync(join(place, 'package.json'))) {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'package.json'), '{"private":true}')
    const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
    const { status, stderr } = spawnSync('npm', ['install', ...flags, name], {
      cwd: folder,
      timeout: 300_000,
    })
    if (status !== 0) throw new Error(`npm install failed: ${String(stderr).slice(0, 200)}`)
  }
  const { version, bin: programs = {} } = packageShape.parse(
    JSON.parse(readFileSync(join(place, 'package.json'), 'utf8')),
  )
  const program =
    typeof programs === 'string' ? programs : bin === undefined ? Object.values(programs)[0] : programs[bin]
  if (program === undefined) throw new Error('the package has no program')
  const home = join(folder, 'home')
  mkdirSync(home, { recursive: true })
  const started = [
    process.execPath,
    join(place, program),
    ...args.map((text) => text.replace('{home}', home)),
  ]
  const [command = '', ...rest] = hasUnshare ? ['unshare', '-rn', '--', ...started] : started
  return { version, command, args: rest, env: { ...CREDENTIALS, HOME: home, CI: '1', ...env } }
}

const client = () =>
  new Client({ name: 'collet-interop', version: '1.0.0' }, { capabilities: { elicitation: {} } })

async function readDirect({ command, args, env }: Installed, server: PublicServer): Promise<Reading> {
  const direct = client()
  const path = process.env.PATH ?? ''
  const transport = new StdioClientTransport({
    command,
    args: [...args],
    env: { PATH: path, ...env },
    stderr: 'pipe',
    cwd: env.HOME ?? '/',
  })
  let stderr = ''
  transport.stderr?.on('data', (chunk) => (stderr += String(chunk)))
  try {
    await direct.connect(transport, { timeout: 30_000 })
    return await readServer(direct, server.calls ?? [])
  } catch (error) {
    const tail = stderr.trim().replaceAll(/\s+/g, ' ').slice(-200)
    throw new Error(`${error instanceof Error ? error.message : 'failed'}; ${tail}`)
  } finally {
    await direct.close()
  }
}

async function readThrough({ command, args, env }: Installed, server: PublicServer): Promise<Reading> {
  const settings = testSettings()
  const options = { type: 'mcp', command, args, env, cwd: env.HOME, trust: 'annotations' }
  const collet = await startServer(
    {
      ...settings,
      sources: new Map([['Ref', MCP_OPTIONS.parse(options)]]),
      toolsets: new Map([['ref', { include: ['source:Ref'], exclude: [], names: 'native' } as const]]),
    },
    { graceMs: 0 },
  )
  const through = client()
  try {
    await collet.sourceRead('Ref')
    await through.connect(new StreamableHTTPClientTransport(new URL(`${collet.url}/mcp/ref`)))
    return await readServer(through, server.calls ?? [])
  } finally {
    await through.close()
    await collet.close()
    rmSync(settings.dataFolder, { recursive: true, force: true })
  }
}

async function compare(server: PublicServer): Promise<ServerRow> {
  const { name } = server
  let version = ''
  try {
    const installed = install(server)
    version = installed.version
    const direct = await readDirect(installed, server)
    const through = await readThrough(installed, server)
    const count = (kind: keyof Reading['lists']) => direct.lists[kind].size
    return {
      name,
      version,
      counts: [count('tools'), count('prompts'), count('resources'), count('resourceTemplates')],
      results: direct.results.size,
      differences: compareReadings(direct, through),
    }
  } catch (error) {
    return { name, version, problem: error instanceof Error ? error.message : String(error) }
  }
}

function show({ member, of, direct, through }: Difference): string {
  const short = (value: unknown) => JSON.stringify(value)?.slice(0, 300) ?? 'absent'
  return `  ${member} of ${of}\n    direct:  ${short(direct)}\n    through: ${short(through)}`
}

function report(row: ServerRow): void {
  if ('problem' in row) {
    say(`${row.name} ${row.version}: not compared: ${row.problem}`)
    return
  }
  const [tools, prompts, resources, templates] = row.counts
  say(
    `${row.name} ${row.version}: ${tools} tools, ${prompts} prompts, ${resources} resources, ${templates} templates, ${row.results} results, ${row.differences.length} differences`,
  )
  for (const difference of row.differences) say(show(difference))
}

const chosen = PUBLIC_SERVERS.filter(({ name }) => positionals.length === 0 || positionals.includes(name))
const waiting = [...chosen]
const found = new Map<string, ServerRow>()
/** Most of the time is waiting for a server to start. */
const worker = async (): Promise<void> => {
  for (let server = waiting.shift(); server !== undefined; server = waiting.shift()) {
    const row = await compare(server)
    found.set(server.name, row)
    report(row)
  }
}
await Promise.all(Array.from({ length: Number(values.workers ?? 2) }, worker))
const rows = chosen.flatMap(({ name }) => found.get(name) ?? [])
say(`${rows.filter((row) => !('problem' in row)).length} of ${rows.length} servers compared`)
if (values.write === true) replacePart('servers', renderServers(rows))
if (values.folder === undefined) rmSync(root, { recursive: true })
process.exit(0)
