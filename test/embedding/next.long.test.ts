import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { installProject } from '../docs/installed-project.ts'
import { readBlocks } from '../docs/markdown-blocks.ts'
import { type ServerProcess, startServerProcess } from '../e2e/server-process.ts'

/**
 * A folder after `npm install next react react-dom typescript @types/node @types/react`, as create-next-app does. That is
 * 342 MB without the compiler, too much to download for this file alone.
 */
const NEXT = process.env.COLLET_NEXT
const KEY = randomBytes(32).toString('base64url')
const LIMIT_MS = 300_000

describe.skipIf(NEXT === undefined)('the Next app of docs/embedding.md (COLLET_NEXT names a folder)', () => {
  let project: string
  let env: NodeJS.ProcessEnv
  let url: string
  let app: ServerProcess | undefined

  beforeAll(async () => {
    project = installProject({ hasTypes: true })
    for (const name of readdirSync(join(NEXT ?? '', 'node_modules'))) {
      const installed = join(project, 'node_modules', name)
      if (!existsSync(installed))
        cpSync(join(NEXT ?? '', 'node_modules', name), installed, { recursive: true })
    }
    for (const { text } of readBlocks('docs/embedding.md')) {
      const [, file = ''] = /^\/\/ ((?:app\/|next\.)\S+)\n/.exec(text) ?? []
      if (file !== '') write(file, text)
    }
    write(
      'app/layout.js',
      'export default ({ children }) => <html lang="en"><body>{children}</body></html>\n',
    )
    url = `http://127.0.0.1:${await freePort()}`
    env = {
      PATH: process.env.PATH,
      NODE_ENV: 'production',
      NEXT_TELEMETRY_DISABLED: '1',
      AGENT_KEY: KEY,
      PUBLIC_URL: `${url}/agent`,
    }
    next('build')
  }, LIMIT_MS)

  afterAll(async () => {
    await app?.stop()
    rmSync(project, { recursive: true })
  })

  it(
    'opens nothing during the build, answers over OTC and MCP, streams, and ends with its process',
    async () => {
      expect(existsSync(join(project, '.collet'))).toBe(false)
      app = await start()
      expect((await callOtc('c-1', 'wrong')).status).toBe(401)
      expect(await callOtc('c-1', KEY)).toMatchObject({ status: 200, body: { result: { value: 'Hello!' } } })
      expect(existsSync(join(project, '.collet/collet.db'))).toBe(true)

      const client = new Client({ name: 'test', version: '1.0.0' })
      const requestInit = { headers: { 'x-api-key': KEY } }
      await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/agent/mcp`), { requestInit }))
      const received: (string | undefined)[] = []
      const onprogress = ({ message }: { readonly message?: string | undefined }) =>
        void received.push(message)
      const { content } = await client.callTool({ name: 'Hello_Greet', arguments: {} }, undefined, {
        onprogress,
      })
      expect(content).toMatchObject([{ type: 'text', text: '"Hello!"' }])
      expect(received).toEqual(['greeting'])

      // This client, of an older revision, keeps a stream open: it is ended too, or the process would never end.
      expect(await app.stop()).toBe(143)
      await client.close().catch(() => undefined)
    },
    LIMIT_MS,
  )

  it(
    'has its records after a restart',
    async () => {
      app = await start()
      expect(await callOtc('c-1', KEY)).toMatchObject({ status: 200, body: { result: { value: 'Hello!' } } })
      expect(await app.stop()).toBe(143)
    },
    LIMIT_MS,
  )

  function write(file: string, text: string): void {
    mkdirSync(dirname(join(project, file)), { recursive: true })
    writeFileSync(join(project, file), text)
  }

  function next(...argv: readonly string[]): void {
    execFileSync(process.execPath, ['node_modules/next/dist/bin/next', ...argv], {
      cwd: project,
      env,
      stdio: 'pipe',
    })
  }

  async function start(): Promise<ServerProcess> {
    const { hostname, port } = new URL(url)
    const script = `echo on ${url}; exec "$0" node_modules/next/dist/bin/next start -H ${hostname} -p ${port}`
    const started = await startServerProcess('sh', ['-c', script, process.execPath], { cwd: project, env })
    const isUp = async () => expect((await fetch(`${url}/agent/health`)).status).toBe(200)
    await vi.waitFor(isUp, { timeout: 30_000, interval: 100 })
    return started
  }

  async function callOtc(callId: string, key: string) {
    const reply = await fetch(`${url}/agent/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': key },
      body: JSON.stringify({ request: { tool_id: 'Hello.Greet', call_id: callId, input: {} } }),
    })
    return { status: reply.status, body: await reply.json() }
  }
})

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return typeof address === 'object' && address !== null ? address.port : 0
}
