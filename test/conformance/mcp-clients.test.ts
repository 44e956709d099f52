import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'
import { mcpFixtures } from './mcp-fixtures.ts'
import { endTalks, startTalk } from './mcp-talk.ts'

const run = promisify(execFile)
const CLIENT = fileURLToPath(new URL('./mcp-client-process.mjs', import.meta.url))
const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const FIXTURES = new URL('./mcp-fixtures.ts', import.meta.url)
const LIMIT_MS = 60_000

const NEGOTIATIONS = [
  { which: 'old', mode: 'none', sum: { result: 3 } },
  { which: 'new', mode: '2026-07-28', sum: 3 },
  { which: 'new', mode: 'auto', sum: 3 },
  { which: 'new', mode: 'legacy', sum: { result: 3 } },
] as const

/** Runs everything that a client must support, without the `NODE_OPTIONS` of the test run. */
async function playClient(...args: readonly string[]) {
  const { stdout } = await run(process.execPath, [CLIENT, ...args], {
    env: { ...process.env, NODE_OPTIONS: '' },
    timeout: LIMIT_MS,
  })
  return JSON.parse(stdout)
}

function expected(sum: unknown) {
  return {
    tools: expect.arrayContaining(['Math_Add', 'Ask_Name']),
    sum,
    named: [{ type: 'text', text: '"Ann"' }],
    unknown: expect.stringContaining('Unknown tool: Nope'),
  }
}

afterEach(endTalks)

describe('official clients over HTTP', () => {
  it.each(NEGOTIATIONS)(
    'MCP-22, MCP-33, MCP-65, MCP-67, MCP-73, MCP-79, T-10: the $which client, $mode, lists, calls and answers questions',
    async ({ which, mode, sum }) => {
      const { server } = await startTalk(mcpFixtures().tools)
      expect(await playClient(which, mode, `${server.url}/mcp`)).toEqual(expected(sum))
    },
    LIMIT_MS,
  )
})

describe('official clients on stdio', () => {
  it.each(NEGOTIATIONS)(
    'MCP-97, MCP-98, MCP-100: the $which client, $mode, starts collet mcp and does the same',
    async ({ which, mode, sum }) => {
      const folder = mkdtempSync(join(tmpdir(), 'collet-mcp-'))
      try {
        writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
        const config = join(folder, 'collet.config.ts')
        writeFileSync(
          config,
          `import { mcpFixtures } from ${JSON.stringify(FIXTURES.href)}\nimport { tool } from ${JSON.stringify(new URL('../../src/index.ts', import.meta.url).href)}\nconsole.log('a tool file prints')\nexport default { tools: mcpFixtures().tools.map((written) => tool(written)), log: { level: 'silent' } }\n`,
        )
        const command = [
          process.execPath,
          '--conditions=collet-source',
          '--disable-warning=ExperimentalWarning',
          MAIN,
        ]
        const played = await playClient(
          which,
          mode,
          ...command,
          'mcp',
          '--config',
          config,
          '--store',
          'memory:',
        )
        expect(played).toEqual(expected(sum))
      } finally {
        rmSync(folder, { recursive: true })
      }
    },
    LIMIT_MS,
  )
})
