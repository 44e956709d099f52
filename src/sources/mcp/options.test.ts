import { describe, expect, it } from 'vitest'
import { shownCommand } from '#sources/kit/source-facts'
import { MCP_OPTIONS } from './options.ts'
import { endpointOf, isAt } from './upstream.ts'

function problems(options: Record<string, unknown>): string {
  const { error } = MCP_OPTIONS.safeParse({ type: 'mcp', ...options })
  return error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('\n') ?? ''
}

describe('options of an MCP source', () => {
  it.each([
    [{}, 'command: write `command` (a program) or `url`'],
    [{ command: 'x', url: 'https://h/mcp' }, 'not both'],
    [{ command: 'x', headers: { a: 'b' } }, 'headers: is for a `url`'],
    [{ url: 'https://h/mcp', env: { A: 'b' } }, 'env: is for a `command`'],
    [{ url: 'https://h/mcp', args: ['a'] }, 'args: is for a `command`'],
    [{ url: 'ftp://h/mcp' }, 'url: write an http or https URL'],
    [{ url: 'https://me:pw@h/mcp' }, 'url: write no user'],
    [{ url: 'https://h/mcp', headers: { 'Mcp-Name': 'x' } }, 'set by the MCP client itself'],
    [{ url: 'https://h/mcp', headers: { 'a b': 'x' } }, 'not the name of an HTTP header'],
    [
      { url: 'https://h/mcp', connection: 'shared', authorization: { provider: 'p' } },
      'connection: callers with their own credentials cannot share',
    ],
    [{ url: 'https://h/mcp', colour: 'red' }, 'colour'],
  ])('%j is refused with advice', (options, message) => {
    expect(problems(options)).toContain(message)
  })

  it('hide credentials when serialized', () => {
    const options = MCP_OPTIONS.parse({
      type: 'mcp',
      url: 'https://h/mcp',
      headers: { authorization: 'Bearer canary' },
    })
    expect(JSON.stringify(options)).not.toContain('canary')
  })

  it('rule 32: a pin contains the command or the URL, independent of the order of its members', () => {
    const at = (args: readonly string[]) =>
      endpointOf(MCP_OPTIONS.parse({ type: 'mcp', command: 'npx', args, cwd: 'sub' }), { folder: '/srv' })
    const endpoint = at(['-y', 'x'])
    expect(endpoint).toMatchObject({ transport: 'stdio', cwd: '/srv/sub' })
    const pinned = Object.fromEntries(Object.entries(endpoint.pinned).reverse())
    expect(isAt({ endpoint: pinned }, endpoint)).toBe(true)
    expect(isAt({ endpoint: pinned }, at(['-y', 'y']))).toBe(false)
    expect(isAt({}, endpoint)).toBe(false)
    expect(pinned).not.toHaveProperty('cwd')
  })

  it.each([
    [['-y', '@acme/server', '--api-key=canary'], 'npx @acme/server'],
    [['run', '--rm', '-i', 'mcp/postgres:1.2', 'canary'], 'npx mcp/postgres:1.2'],
    [['--api-key', 'canary', 'server'], 'npx'],
    [['postgresql://app:canary@db.example/x'], 'npx'],
    [['-c', 'PGPASSWORD=canary psql'], 'npx'],
    [['TOKEN=canary'], 'npx'],
    [['app:canary@db'], 'npx'],
  ])('only the package or script of %j is shown and pinned', (args, shown) => {
    expect(shownCommand('npx', args)).toBe(shown)
    const options = MCP_OPTIONS.parse({ type: 'mcp', command: 'npx', args })
    const pinned = JSON.stringify(endpointOf(options, { folder: '/' }).pinned)
    expect(pinned).not.toContain('canary')
    expect(pinned.includes('postgresql://db.example')).toBe(args.join().includes('db.example'))
  })

  it.each([
    ['/opt/acme/server --token=canary', '/opt/acme/server …'],
    ['acme-server canary', 'acme-server …'],
    ['acme-server -f /etc/canary', 'acme-server …'],
    ['TOKEN=canary', 'TOKEN=…'],
    ['https://ann:canary@a.example/x', 'https:…'],
    ['C:\\Program Files\\acme\\server.exe', 'C:\\Program Files\\acme\\server.exe'],
    ['/opt/My App/server', '/opt/My App/server'],
  ])('only the part of the command %s that can be a path is shown and pinned', (command, shown) => {
    expect(shownCommand(command, [])).toBe(shown)
    const identity = (word: string) =>
      JSON.stringify(endpointOf(MCP_OPTIONS.parse({ type: 'mcp', command: word }), { folder: '/' }).pinned)
    expect(identity(command)).not.toContain('canary')
    expect(identity(`${command}2`)).not.toBe(identity(command))
  })

  it.each([
    ['/opt/acme/slack-server', 'xoxb-canary', '/opt/acme/slack-server'],
    ['C:\\tools\\acme.exe', 'canary', 'C:\\tools\\acme.exe'],
    ['/usr/bin/python3.12', 'server.py', '/usr/bin/python3.12 server.py'],
    ['C:\\nodejs\\node.exe', 'server.js', 'C:\\nodejs\\node.exe server.js'],
    ['uvx', 'acme-server', 'uvx acme-server'],
  ])('%s %s: the first argument is shown only if the program is a launcher', (command, word, shown) => {
    expect(shownCommand(command, [word])).toBe(shown)
    const options = MCP_OPTIONS.parse({ type: 'mcp', command, args: [word] })
    const pinned = endpointOf(options, { folder: '/' }).pinned
    expect(pinned).toMatchObject({ command })
    expect(JSON.stringify(pinned)).not.toContain('canary')
  })
})
