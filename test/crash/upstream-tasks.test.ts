import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { tool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { startServer } from '#server/start-server'
import { CALL_WAYS } from '../conformance/call-ways.ts'
import { type ServerProcess, startCollet } from '../e2e/server-process.ts'
import { createDatabase } from '../store/databases.ts'
import { testSettings } from '../test-settings.ts'

const LIMIT_MS = 120_000

/** A server whose tool runs only as a task, and ends when `finish` is called. */
interface Upstream {
  readonly url: string
  /** How often the tool was started. */
  runs(): number
  /** How often the task was polled. */
  polls(): number
  finish(): void
  /** Forgets all tasks, like a server that keeps them in memory and is restarted. */
  forget?(): void
}

/** Counts `tasks/get` on its way to a server, and has one address while servers behind it change. */
async function startFront(target: () => string) {
  let polls = 0
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = Buffer.concat(chunks)
    if (body.includes('"tasks/get"')) polls += 1
    const { host: _host, connection: _connection, 'content-length': _length, ...headers } = request.headers
    const answer = await fetch(target(), {
      method: request.method ?? 'POST',
      headers: headers as Record<string, string>,
      ...(body.length === 0 ? {} : { body }),
    }).catch(() => undefined)
    if (answer === undefined) return void response.destroy()
    response.writeHead(answer.status, Object.fromEntries(answer.headers))
    const content = answer.body === null ? [] : answer.body
    await pipeline(content, response).catch(() => undefined)
  })
  await listen(server)
  return { url: `${addressOf(server)}/mcp`, polls: () => polls }
}

/** Revision 2026-07-28: another Collet. */
async function startModern(): Promise<Upstream> {
  const gate = Promise.withResolvers<void>()
  let runs = 0
  const settings = testSettings({
    tools: requireTools([
      tool({
        id: 'Job.Write@1.0.0',
        description: 'Writes slowly.',
        input: {},
        output: {},
        policy: { safetyTier: 'write', timeoutMs: 100_000 },
        task: 'required',
        async run() {
          runs += 1
          await gate.promise
          return 'written once'
        },
      }),
    ]),
  })
  const server = await startServer(settings, { graceMs: 0 })
  onTestFinished(async () => {
    gate.resolve()
    await server.close()
    rmSync(settings.dataFolder, { recursive: true, force: true })
  })
  const front = await startFront(() => `${server.url}/mcp`)
  return { ...front, runs: () => runs, finish: () => gate.resolve() }
}

/** Revision 2025-11-25: the official SDK. */
async function startLegacy(): Promise<Upstream> {
  let store = new InMemoryTaskStore()
  let runs = 0
  const gate = Promise.withResolvers<void>()
  const server = createServer(async (request, response) => {
    const tasks = store
    const mcp = new McpServer(
      { name: 'job', version: '1' },
      {
        capabilities: { tasks: { requests: { tools: { call: {} } }, list: {}, cancel: {} } },
        taskStore: tasks,
      },
    )
    mcp.experimental.tasks.registerToolTask(
      'Job_Write',
      { description: 'Writes slowly.', execution: { taskSupport: 'required' } },
      {
        async createTask({ taskStore }) {
          const task = await taskStore.createTask({ ttl: 100_000, pollInterval: 100 })
          runs += 1
          void gate.promise.then(() =>
            taskStore.storeTaskResult(task.taskId, 'completed', {
              content: [{ type: 'text', text: 'written once' }],
            }),
          )
          return { task }
        },
        getTask: async ({ taskStore, taskId }) => await taskStore.getTask(taskId),
        getTaskResult: async ({ taskStore, taskId }) =>
          (await taskStore.getTaskResult(taskId)) as { content: [] },
      },
    )
    const transport = new StreamableHTTPServerTransport()
    await mcp.connect(transport)
    await transport.handleRequest(request, response)
  })
  await listen(server)
  onTestFinished(() => gate.resolve())
  const front = await startFront(() => `${addressOf(server)}/mcp`)
  return {
    ...front,
    runs: () => runs,
    finish: () => gate.resolve(),
    forget: () => {
      store = new InMemoryTaskStore()
    },
  }
}

type HttpServer = ReturnType<typeof createServer>

async function listen(server: HttpServer): Promise<void> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
}

function addressOf(server: HttpServer): string {
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
}

/** A folder in which Collet is started, each time on the same store. */
function makeFolder(upstream: Upstream, store: string) {
  const folder = mkdtempSync(join(tmpdir(), 'collet-upstream-tasks-'))
  const config = { store, log: { level: 'warn' }, sources: { Up: { type: 'mcp', url: upstream.url } } }
  writeFileSync(join(folder, 'collet.config.json'), JSON.stringify(config))
  const env = { COLLET_KEY: randomBytes(32).toString('base64') }
  const servers: ServerProcess[] = []
  onTestFinished(async () => {
    for (const server of servers) await server.stop('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  })
  return async (): Promise<ServerProcess> => {
    const server = await startCollet(['serve', '--port', '0'], { cwd: folder, env })
    servers.push(server)
    await vi.waitFor(async () => {
      const { tools } = (await (await fetch(`${server.url}/tools`)).json()) as { tools: { id: string }[] }
      expect(JSON.stringify(tools)).toContain('Job_Write')
    }, LIMIT_MS)
    return server
  }
}

const call = (server: ServerProcess) => CALL_WAYS.OTC(server.url, { tool: 'Up.Job_Write', key: 'one' })

/** Starts the call, and kills the server once it polls the task. */
async function killDuringTask(server: ServerProcess, upstream: Upstream): Promise<void> {
  call(server).catch(() => undefined)
  await vi.waitFor(() => expect(upstream.polls()).toBeGreaterThan(0), LIMIT_MS)
  await server.stop('SIGKILL')
}

describe.each([
  ['2026-07-28', startModern],
  ['2025-11-25', startLegacy],
])('a server of %s works on a task when Collet is killed', (_revision, start) => {
  it(
    'rule 8, MCP-119: after a restart the call waits for the same task',
    async () => {
      const upstream = await start()
      const startServerAgain = makeFolder(upstream, 'sqlite:collet.db')
      await killDuringTask(await startServerAgain(), upstream)
      const again = await startServerAgain()
      const asked = upstream.polls()
      const answered = call(again)
      await vi.waitFor(() => expect(upstream.polls()).toBeGreaterThan(asked), LIMIT_MS)
      upstream.finish()
      const { code, value } = await answered
      expect([code, JSON.stringify(value)]).toEqual(['ok', expect.stringContaining('written once')])
      expect(await call(again)).toMatchObject({ code: 'ok', value })
      expect(upstream.runs()).toBe(1)
    },
    LIMIT_MS,
  )

  it(
    'rule 8: another replica waits for the same task',
    async () => {
      const upstream = await start()
      const startReplica = makeFolder(upstream, `${await createDatabase('upstream_tasks')}?lease=5`)
      const [first, second] = [await startReplica(), await startReplica()]
      await killDuringTask(first, upstream)
      upstream.finish()
      const { code, value } = await call(second)
      expect([code, JSON.stringify(value)]).toEqual(['ok', expect.stringContaining('written once')])
      expect(upstream.runs()).toBe(1)
    },
    LIMIT_MS,
  )
})

it(
  'rule 10: a task that its server has forgotten ends the call with an unknown effect, and is not run again',
  async () => {
    const upstream = await startLegacy()
    const startServerAgain = makeFolder(upstream, 'sqlite:collet.db')
    await killDuringTask(await startServerAgain(), upstream)
    upstream.forget?.()
    const again = await startServerAgain()
    const { code, message, retry } = await call(again)
    expect([code, message]).toEqual([
      'upstream_failed',
      expect.stringContaining('may or may not have taken effect'),
    ])
    expect(retry.can_retry).not.toBe(true)
    expect((await call(again)).code).toBe('upstream_failed')
    expect(upstream.runs()).toBe(1)
  },
  LIMIT_MS,
)
