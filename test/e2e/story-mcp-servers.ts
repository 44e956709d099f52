import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { expect } from 'vitest'
import { z } from 'zod'
import { startServerProcess } from './server-process.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const MAX_S = 120
const run = promisify(execFile)

/** Popular MCP servers from npm, as installed in this repository. */
function published(name: string, ...args: readonly string[]) {
  return {
    command: process.execPath,
    args: [join(ROOT, 'node_modules/@modelcontextprotocol', name, 'dist/index.js'), ...args],
  }
}

/**
 * A user has three MCP servers in the file of Claude Desktop, and an empty folder. Two commands later all of them are
 * behind one address. `collet` is how the command is started in that folder.
 */
export async function playMcpServersStory(
  folder: string,
  collet: readonly [string, ...string[]],
): Promise<void> {
  const settings = join(folder, 'settings')
  const work = join(folder, 'work')
  mkdirSync(join(settings, 'Claude'), { recursive: true })
  mkdirSync(work)
  writeFileSync(join(work, 'hello.txt'), 'Hello from a file.\n')
  const mcpServers = {
    filesystem: published('server-filesystem', work),
    memory: { ...published('server-memory'), env: { MEMORY_FILE_PATH: join(folder, 'memory.json') } },
    everything: published('server-everything', 'stdio'),
  }
  writeFileSync(join(settings, 'Claude', 'claude_desktop_config.json'), JSON.stringify({ mcpServers }))
  const env = { ...process.env, NO_COLOR: '1', HOME: folder, APPDATA: settings, XDG_CONFIG_HOME: settings }
  if (process.platform === 'darwin') writeDarwin(folder, mcpServers)
  const [file, ...words] = collet

  const startedMs = performance.now()
  const importing = ['import', '--from', 'claude', '--yes', '--trust', 'annotations']
  const imported = await run(file, [...words, ...importing], { cwd: work, env })
  const importedMs = performance.now()
  const server = await startServerProcess(file, [...words, 'serve', '--port', '0'], { cwd: work, env })
  try {
    const client = new Client({ name: 'story', version: '1.0.0' })
    await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`)))
    const { tools } = await client.listTools()
    const text = async (name: string, input: object) => {
      const called = tools.find((tool) => tool.name.endsWith(name))
      const answer = await client.callTool({ name: called?.name ?? name, arguments: { ...input } })
      return JSON.stringify(answer)
    }
    expect(await text('_read_text_file', { path: join(work, 'hello.txt') })).toContain('Hello from a file.')
    const entities = [{ name: 'Ann', entityType: 'person', observations: ['likes tea'] }]
    await text('_create_entities', { entities })
    expect(await text('_read_graph', {})).toContain('likes tea')
    expect(await text('_echo', { message: 'hi' })).toContain('Echo: hi')
    const endedMs = performance.now()
    await client.close()

    const seconds = (endedMs - startedMs) / 1000
    const importS = ((importedMs - startedMs) / 1000).toFixed(1)
    process.stdout.write(
      `Story 1: three MCP servers of a Claude config behind one address, ${tools.length} tools, called: ${seconds.toFixed(1)} s, 2 commands (import ${importS} s)\n`,
    )
    expect(seconds).toBeLessThan(MAX_S)
    expect(imported.stderr).toContain('Created collet.config.json and .collet/collet.db.')
    expect(tools.find(({ name }) => name.endsWith('_read_graph'))?.annotations?.readOnlyHint).toBe(true)
    expect(tools.find(({ name }) => name.endsWith('_write_file'))?.annotations?.readOnlyHint).toBe(false)
    expect(server.output()).toMatch(/MCP +http:\S+\/mcp/)
  } finally {
    await server.stop()
  }
  await connectBack(file, words, { cwd: work, env })
  const again = await run(file, [...words, ...importing, '--json'], { cwd: work, env })
  expect(JSON.parse(again.stdout)).toMatchObject({
    ...{ added: [], failed: [], known: [{}, {}, {}] },
    skipped: [{ name: 'collet', why: 'it is Collet itself' }],
  })
}

const ENTRY = z.object({ command: z.string(), args: z.array(z.string()) })
const WRITTEN = z.object({ mcpServers: z.object({ collet: ENTRY }) })

/** What `collet connect` writes for Claude Desktop starts from anywhere, with hardly any environment. */
async function connectBack(
  file: string,
  words: readonly string[],
  options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
): Promise<void> {
  const connecting = ['connect', 'claude', '--write', '--yes', '--json']
  const { stdout } = await run(file, [...words, ...connecting], options)
  const { file: written, backup } = z
    .object({ file: z.string(), backup: z.string() })
    .parse(JSON.parse(stdout))
  expect(JSON.parse(readFileSync(backup, 'utf8')).mcpServers).not.toHaveProperty('collet')
  const { command, args } = WRITTEN.parse(JSON.parse(readFileSync(written, 'utf8'))).mcpServers.collet
  const client = new Client({ name: 'story', version: '1.0.0' })
  const transport = new StdioClientTransport({ command, args, cwd: '/', env: {}, stderr: 'ignore' })
  await client.connect(transport)
  expect((await client.listTools()).tools.length).toBeGreaterThan(30)
  await client.close()
}

function writeDarwin(home: string, mcpServers: object): void {
  const place = join(home, 'Library/Application Support/Claude')
  mkdirSync(place, { recursive: true })
  writeFileSync(join(place, 'claude_desktop_config.json'), JSON.stringify({ mcpServers }))
}
