import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect } from 'vitest'
import { z } from 'zod'
import { LOOPS } from '../agents/loops.ts'
import { type Plan, startProvider } from '../agents/provider.ts'
import { startServerProcess } from './server-process.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const GITHUB = join(ROOT, 'node_modules/@octokit/openapi/generated/api.github.com.json')
const MAX_LIST_BYTES = 12_000
const MODEL_BYTES = 32_000
const READ_LIMIT_MS = 60_000

/** Packages that a user of an agent library installs beside Collet. */
const LIBRARIES = [
  ...['ai', '@ai-sdk/openai-compatible', 'openai', '@openai/agents', '@anthropic-ai/sdk'],
  ...['@langchain/core', '@langchain/langgraph', '@langchain/openai', '@mastra/core'],
]

const CONFIG = `import { appendFileSync } from 'node:fs'
import { defineConfig, tool } from 'collet'

const text = (description) => ({ type: 'string', description })
const write = (id, description, properties, policy, effect) =>
  tool({
    ...{ id, description, policy, output: { type: 'string' } },
    input: { type: 'object', properties, required: Object.keys(properties) },
    run: (input) => {
      appendFileSync('effects.txt', effect(input) + '\\n')
      return 'done'
    },
  })

export default defineConfig({
  server: { port: 0 },
  mcp: { discovery: 'search' },
  toolsets: { shop: { include: ['Shop.*'] } },
  sources: { GitHub: { type: 'openapi', file: ${JSON.stringify(GITHUB)} } },
  tools: [
    write('Shop.Mail@1.0.0', 'Sends a mail.', { to: text('Address.') }, {}, ({ to }) => 'mail ' + to),
    write('Shop.Pay@1.0.0', 'Pays an invoice.', { invoice_id: text('Invoice.'), memo: text('Memo.') },
      { identity: ['invoice_id'] }, ({ invoice_id }) => 'pay ' + invoice_id),
    tool({
      id: 'Shop.Orders@1.0.0', description: 'Lists all orders.', input: {}, output: {}, policy: { safetyTier: 'read' },
      run: () => ({ orders: Array.from({ length: 5000 }, (_, id) => ({ id, note: 'A long note. '.repeat(80) })) }),
    }),
  ],
})`

interface Started {
  readonly url: string
  readonly folder: string
}

/** A server with a thousand tools, from search to calls, long results and agent loops that die. `project` has the package installed. */
export async function playModelsStory(project: string): Promise<void> {
  const folder = join(project, 'models')
  mkdirSync(folder)
  writeFileSync(join(folder, 'collet.config.mjs'), CONFIG)
  const startedMs = performance.now()
  const bin = join(project, 'node_modules/collet/bin/collet.js')
  const server = await startServerProcess(process.execPath, [bin, 'serve'], { cwd: folder })
  try {
    const said = [
      await findAndRead({ url: server.url, folder }),
      await runLoops(project, { url: server.url, folder }),
    ]
    const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1)
    process.stdout.write(`story of a model: ${said.join('; ')}; ${seconds} s\n`)
  } finally {
    await server.stop()
  }
}

const CONTENT = z.array(z.object({ text: z.string() }))

async function findAndRead({ url }: Started): Promise<string> {
  const client = new Client({ name: 'story', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)))
  try {
    const call = async (name: string, input: Record<string, unknown>): Promise<readonly string[]> => {
      const { content } = await client.callTool({ name, arguments: input })
      return CONTENT.parse(content).map(({ text }) => text)
    }
    const searchText = async () =>
      (await client.listTools()).tools.find(({ name }) => name === 'search_tools')?.description
    // Sources are read while the server serves.
    await expect.poll(searchText, { timeout: READ_LIMIT_MS }).toContain('GitHub repos (')
    const { tools } = await client.listTools()
    const listBytes = Buffer.byteLength(JSON.stringify(tools))
    expect(tools.map(({ name }) => name)).toEqual([
      'call_tool',
      'describe_tools',
      'read_result',
      'search_tools',
    ])
    expect(listBytes).toBeLessThanOrEqual(MAX_LIST_BYTES)

    const [found = ''] = await call('search_tools', { query: 'open a new bug report in our repo' })
    expect(found.split('\n')[1]).toMatch(/^GitHub_issues_create\(/)
    const [described = ''] = await call('describe_tools', { names: ['GitHub_issues_create'] })
    expect(JSON.parse(described)).toMatchObject({
      name: 'GitHub_issues_create',
      inputSchema: { required: ['owner', 'repo', 'body'] },
    })

    const [words = '', value = ''] = await call('call_tool', { name: 'Shop_Orders' })
    const shownBytes = Buffer.byteLength(words + value)
    expect(shownBytes).toBeLessThanOrEqual(MODEL_BYTES)
    const [uri = ''] = /collet:\/\/calls\/[\w-]+/.exec(words) ?? []
    let whole = ''
    for (let offset: number | undefined = 0; offset !== undefined; ) {
      const [range = '', part = ''] = await call('read_result', { uri, format: 'text', offset })
      expect(Buffer.byteLength(range + part)).toBeLessThanOrEqual(MODEL_BYTES)
      whole += part
      const next: string | undefined = /Read on with offset (\d+)/.exec(range)?.[1]
      offset = next === undefined ? undefined : Number(next)
    }
    expect(JSON.parse(whole).orders).toHaveLength(5_000)
    expect(whole.length).toBeGreaterThan(5_000_000)
    return `tools/list ${listBytes} bytes; of a value of ${whole.length} bytes ${shownBytes} at first, all in parts`
  } finally {
    await client.close()
  }
}

const MAIL = { name: 'Shop_Mail', input: { to: 'ann@example.com' } }
const PLAN: Plan = [[MAIL, MAIL], [{ name: 'Shop_Pay', input: { invoice_id: '17', memo: 'rent' } }], [MAIL]]
const INTENDED = ['mail ann@example.com', 'mail ann@example.com', 'mail ann@example.com', 'pay 17']
/** The request of a loop after which it is killed; everything before the last call has happened. */
const KILLED_AT = 3

/** A loop in each library dies in the middle and starts again without saved state, so that all its calls have different ids. */
async function runLoops(project: string, { url, folder }: Started): Promise<string> {
  const made = LIBRARIES.map((name) => link(project, name))
  for (const file of ['loops.ts', 'loop-process.ts'])
    copyFileSync(join(ROOT, 'test/agents', file), join(folder, file))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  let kills = 0
  try {
    for (const library of Object.keys(LOOPS)) {
      rmSync(join(folder, 'effects.txt'), { force: true })
      let requests = 0
      let die: (() => void) | undefined
      const provider = await startProvider(PLAN, {
        onRequest: () => {
          requests += 1
          if (requests === KILLED_AT) die?.()
        },
      })
      try {
        for (const start of [1, 2]) {
          const saved = join(folder, `${library}-${start}`)
          const argv = ['loop-process.ts', library, saved, url, provider.url, library, 'shop']
          const loop = spawn(process.execPath, argv, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
          die = start === 1 ? () => void loop.kill('SIGKILL') : undefined
          const [code, signal] = await once(loop, 'exit')
          if (signal === 'SIGKILL') kills += 1
          expect([library, start, code, signal]).toEqual([
            library,
            start,
            ...(start === 1 ? [null, 'SIGKILL'] : [0, null]),
          ])
        }
      } finally {
        await provider.close()
      }
      const effects = readFileSync(join(folder, 'effects.txt'), 'utf8').trimEnd().split('\n').toSorted()
      expect([library, effects]).toEqual([library, INTENDED])
    }
  } finally {
    // Other tests measure what is installed.
    for (const path of made) rmSync(path, { recursive: true, force: true })
  }
  return `${Object.keys(LOOPS).length} agent loops killed ${kills} times, each effect once`
}

/** Returns what was made: the link, or the folder of its scope. */
function link(project: string, name: string): string {
  const path = join(project, 'node_modules', name)
  const folder = mkdirSync(dirname(path), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules', name), path)
  return folder ?? path
}
