import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { answerOf, ask } from '../conformance/mcp-talk.ts'
import { type ServerProcess, startCollet } from './server-process.ts'

const LIMIT_MS = 120_000
const TASKS = { extensions: { 'io.modelcontextprotocol/tasks': {} } }

const servers: ServerProcess[] = []
const folders: string[] = []

afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop('SIGKILL')
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

/** Tools that record each start in `starts` and end when the file `go` exists. */
const CONFIG = `
import { appendFileSync, existsSync, watch } from 'node:fs'
const arrived = () => new Promise((resolve) => {
  const watcher = watch('.', look)
  function look() {
    if (!existsSync('go')) return
    watcher.close()
    resolve()
  }
  look()
})
const slow = (name, policy) => ({
  [Symbol.for('collet.tool')]: true,
  id: 'Slow.' + name + '@1.0.0',
  description: 'Waits for a file.',
  input: {},
  output: {},
  policy,
  async run() {
    appendFileSync('starts', name + '\\n')
    await arrived()
    return name
  },
})
export default {
  server: { port: 0 },
  mcp: { taskAfterMs: 20 },
  tools: [
    slow('Read', { safetyTier: 'read' }),
    slow('Write', { safetyTier: 'write' }),
    slow('Asks', { safetyTier: 'write', approval: 'always' }),
  ],
}
`

function openProject() {
  const folder = mkdtempSync(join(tmpdir(), 'collet-tasks-'))
  folders.push(folder)
  writeFileSync(join(folder, 'collet.config.mjs'), CONFIG)
  return {
    async start() {
      const server = await startCollet(['serve'], { cwd: folder })
      servers.push(server)
      return server
    },
    go: () => writeFileSync(join(folder, 'go'), ''),
    starts: () =>
      existsSync(join(folder, 'starts'))
        ? readFileSync(join(folder, 'starts'), 'utf8').trim().split('\n')
        : [],
  }
}

async function request(url: string, method: string, params: object, capabilities: object = TASKS) {
  const { result, error } = await answerOf(await ask(url, { method, params, capabilities }))
  if (error !== undefined) throw new Error(error.message)
  return result
}

/** Polls until the task has ended. */
async function endOf(url: string, taskId: string) {
  for (;;) {
    const task = await request(url, 'tasks/get', { taskId })
    if (task.status !== 'working') return task
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

describe('a server that is killed in the middle of a task', () => {
  it(
    'MCP-129: a task that only reads runs again after the restart, and ends',
    async () => {
      const project = openProject()
      const first = await project.start()
      const { taskId, resultType } = await request(first.url, 'tools/call', { name: 'Slow_Read' })
      expect(resultType).toBe('task')
      await first.stop('SIGKILL')
      const second = await project.start()
      expect(await request(second.url, 'tasks/get', { taskId })).toMatchObject({ taskId, status: 'working' })
      project.go()
      expect(await endOf(second.url, taskId)).toMatchObject({
        status: 'completed',
        result: { structuredContent: 'Read' },
      })
      expect(project.starts()).toEqual(['Read', 'Read'])
    },
    LIMIT_MS,
  )

  it(
    'MCP-129: a task that writes never runs twice, and says that its effect is unknown',
    async () => {
      const project = openProject()
      const first = await project.start()
      const { taskId } = await request(first.url, 'tools/call', { name: 'Slow_Write' })
      await first.stop('SIGKILL')
      project.go()
      const second = await project.start()
      expect(await endOf(second.url, taskId)).toMatchObject({
        status: 'completed',
        result: { isError: true, _meta: { 'collet/errorCode': 'ambiguous' } },
      })
      expect(project.starts()).toEqual(['Write'])
    },
    LIMIT_MS,
  )

  it(
    'MCP-124, MCP-129: a task that waits for approval still waits after the restart',
    async () => {
      const project = openProject()
      const first = await project.start()
      const capabilities = { ...TASKS, elicitation: { url: {} } }
      const { taskId } = await request(first.url, 'tools/call', { name: 'Slow_Asks' }, capabilities)
      await first.stop('SIGKILL')
      const second = await project.start()
      const asked = await request(second.url, 'tasks/get', { taskId }, capabilities)
      expect(asked).toMatchObject({ status: 'input_required', inputRequests: expect.any(Object) })
      await request(second.url, 'tasks/cancel', { taskId }, capabilities)
      expect(await endOf(second.url, taskId)).toMatchObject({ status: 'cancelled' })
      expect(project.starts()).toEqual([])
    },
    LIMIT_MS,
  )
})
