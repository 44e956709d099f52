import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import { chunks, FakeIo } from './fake-io.ts'

const SERVER = new URL('small-mcp-server.mjs', import.meta.url).pathname
const FILE = 'home/.config/Claude/claude_desktop_config.json'

let folder: string
const path = (...names: string[]) => join(folder, ...names)
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-bypass-'))
  mkdirSync(path('work'))
})
afterEach(() => rmSync(folder, { recursive: true }))

function write(file: string, content: object | string): void {
  mkdirSync(dirname(path(file)), { recursive: true })
  writeFileSync(path(file), typeof content === 'string' ? content : JSON.stringify(content, undefined, 2))
}

async function run(argv: readonly string[], answers?: readonly string[]) {
  const environment = readEnvironment({
    HOME: path('home'),
    XDG_CONFIG_HOME: path('home/.config'),
    ROOT: '/data',
  })
  const stdin = answers === undefined ? chunks() : Object.assign(chunks(...answers), { isTTY: true })
  const io = new FakeIo(REAL_SERVICES, {
    workingFolder: path('work'),
    environment,
    stdin,
    command: 'npx collet',
  })
  const code = await io.run(...argv)
  return { code, stdout: io.stdout, stderr: io.stderr }
}

const server = (name: string, ...words: string[]) => ({
  command: process.execPath,
  args: [SERVER, name, 'read_x', ...words],
})
const entries = () => ({
  files: server('Files', `\${ROOT}`),
  mail: { ...server('Mail'), env: { MAIL_TOKEN: 't-canary' } },
})
const names = (file = FILE, member = 'mcpServers') =>
  Object.keys(JSON.parse(readFileSync(path(file), 'utf8'))[member])

describe('entries of a client that bypass Collet', () => {
  beforeEach(async () => {
    write(FILE, { mcpServers: entries(), other: 1 })
    const { stderr } = await run(['import', '--from', 'claude', '--yes'])
    expect(stderr).toContain(`Claude Desktop still reaches files, mail without Collet: ${path(FILE)}.`)
    expect(stderr).toContain(
      '"npx collet connect claude --write" connects it to Collet and offers to remove those entries.',
    )
    expect(names()).toEqual(['files', 'mail'])
  })

  it('are listed after connecting, and removed on request, with one backup of the original file', async () => {
    const before = readFileSync(path(FILE), 'utf8')
    const { code, stderr } = await run(['connect', 'claude', '--write'], ['y\n', '\n'])
    expect(code).toBe(0)
    expect(stderr).toContain(
      `files, mail (with MAIL_TOKEN in clear text) are still in ${path(FILE)} and bypass Collet`,
    )
    expect(stderr).toContain('Remove them? [Y/n]')
    expect(stderr).not.toContain('canary')
    expect(names()).toEqual(['collet'])
    expect(JSON.parse(readFileSync(path(FILE), 'utf8')).other).toBe(1)
    const backups = readdirSync(dirname(path(FILE))).filter((name) => name.endsWith('.backup'))
    expect(backups).toHaveLength(1)
    expect(readFileSync(join(dirname(path(FILE)), backups[0] ?? ''), 'utf8')).toBe(before)
    expect((await run(['doctor'])).stdout).not.toContain('without Collet')
  })

  it('stay if the user declines, or without a terminal', async () => {
    expect((await run(['connect', 'claude', '--write'], ['y\n', 'n\n'])).stderr).toContain('--write --only')
    const { stderr } = await run(['connect', 'claude', '--write', '--yes'])
    expect(stderr).toContain('already has this entry')
    expect(stderr).toContain('To remove them: npx collet connect claude --write --only')
    expect(names()).toEqual(['files', 'mail', 'collet'])
  })

  it('are removed by --only without a terminal; entries that Collet does not serve stay and are listed', async () => {
    write(FILE, {
      mcpServers: { ...entries(), notes: { command: 'notes' }, off: { ...server('Files'), disabled: true } },
    })
    const { stdout, stderr } = await run(['connect', 'claude', '--write', '--yes', '--only', '--json'])
    expect(stderr).toContain('Not imported, so it bypasses Collet: notes')
    expect(JSON.parse(stdout)).toMatchObject({
      name: 'collet',
      changed: true,
      bypasses: [{ name: 'notes', source: null }],
      removed: [
        { name: 'files', source: 'Files' },
        { name: 'mail', source: 'Mail', clear: ['MAIL_TOKEN'] },
      ],
    })
    expect(names()).toEqual(['notes', 'off', 'collet'])
  })

  it('are found by doctor, in every client on this machine', async () => {
    write(
      'home/.codex/config.toml',
      `# mine\n[mcp_servers.files]\ncommand = "${process.execPath}"\nargs = ["${SERVER}", "Files", "read_x", "/data"]\n`,
    )
    const { stdout } = await run(['doctor'])
    expect(stdout).toContain(
      `! client Claude Desktop reaches files, mail (with MAIL_TOKEN in clear text) without Collet: ${path(FILE)}`,
    )
    expect(stdout).toContain(
      `! client Codex reaches files without Collet: ${path('home/.codex/config.toml')}`,
    )
    expect(stdout).toContain('collet connect codex --write --only')
    expect(stdout).not.toContain('canary')
    await run(['connect', 'codex', '--write', '--only', '--yes'])
    expect(readFileSync(path('home/.codex/config.toml'), 'utf8')).toBe(
      '# mine\n[mcp_servers.collet]\nurl = "http://127.0.0.1:4100/mcp"\n',
    )
  })

  it('are found in the other file of a client too, and in the project of Claude Code', async () => {
    write('home/.claude.json', {
      mcpServers: { files: entries().files },
      projects: { [path('work')]: { mcpServers: { mail: entries().mail } } },
    })
    const { stdout } = await run(['connect', 'claude-code', '--write', '--yes', '--only', '--json'])
    expect(JSON.parse(stdout).file).toBe(path('work/.mcp.json'))
    expect(
      JSON.parse(stdout)
        .removed.map(({ name }: { name: string }) => name)
        .sort(),
    ).toEqual(['files', 'mail'])
    expect(JSON.parse(readFileSync(path('home/.claude.json'), 'utf8'))).toEqual({
      mcpServers: {},
      projects: { [path('work')]: { mcpServers: {} } },
    })
  })
})
