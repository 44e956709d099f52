import { randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type ServerProcess, startCollet } from '../e2e/server-process.ts'

const ROOT = resolve(import.meta.dirname, '../..')
export const API_KEY = 'soak-key-soak-key-soak-key-soak-key'

/** A server with tools of its own and three sources, all of them one other server. */
export interface SoakProject {
  readonly server: ServerProcess
  readonly upstream: ServerProcess
  stop(): Promise<void>
}

/** Starts both; `store` is the store of the one that is watched. */
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
  const server = await startIn(join(folder, 'watched'), store, sources).catch(async (error: unknown) => {
    await upstream.stop()
    throw error
  })
  return {
    server,
    upstream,
    async stop() {
      await server.stop()
      await upstream.stop()
    },
  }
}

async function startIn(folder: string, store: string, more: string): Promise<ServerProcess> {
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
  const env = { COLLET_KEY: randomBytes(32).toString('base64') }
  return await startCollet(['serve', '--port', '0', '--store', store], { cwd: folder, env })
}
