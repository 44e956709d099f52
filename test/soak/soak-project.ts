import { randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { type ServerProcess, startCollet } from '../e2e/server-process.ts'

const ROOT = resolve(import.meta.dirname, '../..')
export const API_KEY = 'soak-key-soak-key-soak-key-soak-key'

/** A server with its own tools and three sources, which are all the same second server. */
export interface SoakProject {
  readonly server: ServerProcess
  readonly upstream: ServerProcess
  /** Live memory of the watched server, after a garbage collection. */
  living(): Promise<Living>
  stop(): Promise<void>
}

/** In bytes. */
export interface Living {
  readonly heap: number
  readonly buffers: number
}

/** Starts both; `store` is the store of the watched server. */
export async function startProject(folder: string, store: string): Promise<SoakProject> {
  const upstream = await startIn(join(folder, 'upstream'), 'memory:', '')
  const { host } = new URL(upstream.url)
  const sources = `
    egress: { allow: [${JSON.stringify(host)}] },
    sources: {
      Mcp: { type: 'mcp', url: '${upstream.url}/mcp', headers: { 'x-api-key': '${API_KEY}' } },
      Otc: { type: 'otc', url: '${upstream.url}', apiKey: '${API_KEY}' },
      Opentool: { type: 'opentool', url: '${upstream.url}', apiKey: '${API_KEY}' },
    },`
  const server = await startIn(join(folder, 'watched'), store, sources, REPORTING).catch(
    async (error: unknown) => {
      await upstream.stop()
      throw error
    },
  )
  return {
    server,
    upstream,
    living: () => askLiving(server),
    async stop() {
      await server.stop()
      await upstream.stop()
    },
  }
}

const REPORTING = {
  NODE_OPTIONS: `--import=${pathToFileURL(join(import.meta.dirname, 'report-live-memory.ts')).href}`,
}
const ANSWER = /^living (\d+) (\d+)$/gm
const ANSWER_MS = 10_000

async function askLiving({ pid, output }: ServerProcess): Promise<Living> {
  const answers = () => [...output().matchAll(ANSWER)]
  const before = answers().length
  process.kill(pid, 'SIGUSR2')
  for (const untilMs = performance.now() + ANSWER_MS; performance.now() < untilMs; await wait(10)) {
    const answer = answers()[before]
    if (answer !== undefined) return { heap: Number(answer[1]), buffers: Number(answer[2]) }
  }
  throw new Error(`The server did not report its live memory within ${ANSWER_MS} ms.`)
}

async function startIn(
  folder: string,
  store: string,
  more: string,
  env: NodeJS.ProcessEnv = {},
): Promise<ServerProcess> {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(
    join(folder, 'collet.config.ts'),
    `import { tool } from ${JSON.stringify(join(ROOT, 'src/index.ts'))}
    const input = { type: 'object', properties: { text: { type: 'string', description: 'A text.' } }, required: ['text'] } as const
    const output = { type: 'string' } as const
    export default {
      tools: [
        tool({ id: 'Soak.Say@1.0.0', description: 'Says it again.', input, output, policy: { safetyTier: 'pure' }, run: ({ text }) => text }),
        tool({ id: 'Soak.Keep@1.0.0', description: 'Keeps it.', input, output, policy: { safetyTier: 'write' }, run: ({ text }) => text }),
        tool({ id: 'Soak.Count@1.0.0', description: 'Counts.', input, output, policy: { safetyTier: 'write' },
          session: { open: () => ({ count: 0 }), idleMs: 60_000 },
          run: ({ text }, { session }) => \`\${text} \${(session.count += 1)}\` }),
      ],
      auth: { apiKeys: [{ id: 'soak', key: '${API_KEY}', scopes: ['*'] }] },
      log: { level: 'error' },${more}
    }`,
  )
  const key = { COLLET_KEY: randomBytes(32).toString('base64') }
  return await startCollet(['serve', '--port', '0', '--store', store], {
    cwd: folder,
    env: { ...key, ...env },
  })
}
