import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { startServerProcess } from './server-process.ts'

const run = promisify(execFile)
const TEAMS = Array.from({ length: 30 }, (_, index) => `team${String(index + 1).padStart(2, '0')}`)
const MAX_CALLS = 3

/** The config that a platform engineer writes once for all teams. */
const CONFIG = `import { defineConfig, tool } from 'collet'

const teams = ${JSON.stringify(TEAMS)}
const make = (id, safetyTier) =>
  tool({ id, description: 'Does its work.', policy: { safetyTier }, input: {}, output: { type: 'string' }, run: () => id })

export default defineConfig({
  tools: [
    make('Clock.Now@1.0.0', 'read'),
    ...teams.flatMap((team) => [make(\`\${team}.Find@1.0.0\`, 'read'), make(\`\${team}.Save@1.0.0\`, 'write')]),
  ],
  toolsets: Object.fromEntries(teams.map((team) => [team, { include: [\`\${team}.*\`, 'Clock.Now'] }])),
  auth: { required: true },
  budgets: [{ for: 'tenant', of: teams, window: '1d', calls: ${MAX_CALLS} }],
})
`

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'story', version: '1.0.0' },
  'io.modelcontextprotocol/clientCapabilities': {},
}

/** A line of `collet keys create --from`. */
function readKey(line: string): [team: string, key: string] {
  const [tenant = '', , key = ''] = line.split('\t')
  return [tenant, key]
}

/** Thirty teams on one server: each with its own address, tools, key and budget. */
export async function playTeamsStory(folder: string, collet: readonly [string, ...string[]]): Promise<void> {
  const env = { ...process.env, NO_COLOR: '1' }
  const [file, ...words] = collet
  const command = async (...argv: string[]) => await run(file, [...words, ...argv], { cwd: folder, env })
  writeFileSync(join(folder, 'collet.config.mjs'), CONFIG)

  const startedMs = performance.now()
  // Before the first start, so that the server never accepts calls without a key.
  const [first = ''] = TEAMS
  const entries = TEAMS.map((team) => ({ principal: 'agent', tenant: team, toolsets: [team] }))
  writeFileSync(join(folder, 'teams.json'), JSON.stringify(entries))
  const made = await command('keys', 'create', '--from', 'teams.json')
  expect(made.stderr).toMatch(/Created \.collet[\s\S]*30 keys created/)
  const keys = new Map(made.stdout.trim().split('\n').map(readKey))
  expect([...keys.keys()]).toEqual(TEAMS)
  const server = await startServerProcess(file, [...words, 'serve', '--port', '0'], { cwd: folder, env })
  try {
    const ask = async (path: string, team: string, method: string, params: Record<string, unknown> = {}) => {
      const response = await fetch(`${server.url}${path}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${keys.get(team)}`,
          'content-type': 'application/json',
          accept: 'application/json',
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': method,
          ...(typeof params.name === 'string' ? { 'mcp-name': params.name } : {}),
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: META } }),
      })
      return { status: response.status, text: await response.text() }
    }
    for (const team of TEAMS) {
      const { text } = await ask(`/mcp/${team}`, team, 'tools/list')
      const { result } = JSON.parse(text)
      expect(result.tools.map(({ name }: { name: string }) => name)).toEqual([
        'Clock_Now',
        'read_result',
        `${team}_Find`,
        `${team}_Save`,
      ])
    }
    const [, mine = '', theirs = ''] = TEAMS
    // Another team's address and tools look nonexistent, whatever name is used.
    expect((await ask(`/mcp/${theirs}`, mine, 'tools/list')).status).toBe(404)
    const foreign = await ask('/mcp', mine, 'tools/call', { name: `${theirs}_Save`, arguments: {} })
    expect(foreign.text).toContain(`Unknown tool: ${theirs}_Save`)
    const call = async (team: string) =>
      (await ask(`/mcp/${team}`, team, 'tools/call', { name: `${team}_Save`, arguments: {} })).text
    for (let count = 0; count < MAX_CALLS; count += 1)
      expect(await call(mine)).toContain(`${mine}.Save@1.0.0`)
    expect(await call(mine)).toContain('budget_exceeded')
    expect(await call(theirs)).toContain(`${theirs}.Save@1.0.0`)
    const listed = JSON.parse((await command('toolsets', '--json')).stdout)
    expect(listed).toHaveLength(TEAMS.length)
    expect(listed[0]).toMatchObject({ name: first, path: `/mcp/${first}`, keys: [`agent (${first})`] })
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1)
    process.stdout.write(
      `Story 3: ${TEAMS.length} teams, each with its own address, tools, key and budget: ${seconds} s, 3 commands\n`,
    )
  } finally {
    await server.stop()
  }
}
