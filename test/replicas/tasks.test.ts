import { randomBytes } from 'node:crypto'
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { answerOf, ask, post } from '../conformance/mcp-talk.ts'
import { type ServerProcess, startCollet } from '../e2e/server-process.ts'
import { createDatabase } from '../store/databases.ts'

/*
 * Tasks on three servers with one database: each request goes to a different server from the previous one, and servers are killed.
 */

const LIMIT_MS = 180_000
const TASKS = { extensions: { 'io.modelcontextprotocol/tasks': {} }, elicitation: {} }
/** Each run writes a line and ends when a file with its name exists. */
const CONFIG = `
import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
const work = (id, policy) => ({
  [Symbol.for('collet.tool')]: true, id, description: 'Waits for a file.', policy, output: {},
  input: { type: 'object', properties: { name: { type: 'string', description: 'Which.' } }, required: ['name'] },
  run: async ({ name }, { signal }) => {
    appendFileSync('starts', name + '\\n')
    while (!existsSync('go-' + name)) await setTimeout(20, undefined, { signal })
    return name + ' is done'
  },
})
export default {
  mcp: { taskAfterMs: 20 },
  auth: { apiKeys: [{ id: 'agent', key: 'agent-key-0123456789', scopes: ['*'] }, { id: 'boss', key: 'boss-key-0123456789', scopes: ['*'] }] },
  tools: [work('Kit.Read@1.0.0', { safetyTier: 'read' }), work('Kit.Write@1.0.0', { safetyTier: 'write' }),
    work('Kit.Asks@1.0.0', { safetyTier: 'write', approval: 'always' })],
}
`
let folder: string
const servers: ServerProcess[] = []
let start: () => Promise<ServerProcess>

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-replica-tasks-'))
  writeFileSync(join(folder, 'collet.config.mjs'), CONFIG)
  const store = `${await createDatabase('replica_tasks')}?lease=5`
  const env = { COLLET_KEY: randomBytes(32).toString('base64') }
  start = async () => {
    const server = await startCollet(['serve', '--store', store, '--port', '0'], { cwd: folder, env })
    servers.push(server)
    return server
  }
  for (const _ of [1, 2, 3]) await start()
}, LIMIT_MS)
afterAll(async () => {
  for (const server of servers) await server.stop('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

const headers = { authorization: 'Bearer agent-key-0123456789' }
const at = (index: number): string => servers[index]?.url ?? ''
const go = (name: string): void => appendFileSync(join(folder, `go-${name}`), '')
const starts = (name: string): number =>
  existsSync(join(folder, 'starts'))
    ? readFileSync(join(folder, 'starts'), 'utf8')
        .split('\n')
        .filter((line) => line === name).length
    : 0

async function request(url: string, method: string, params: object) {
  const { result, error } = await answerOf(
    await ask(url, { method, params, capabilities: TASKS }, { headers }),
  )
  if (error !== undefined) throw new Error(error.message)
  return result
}

const callOf = (tool: string, name: string) => ({ name: `Kit_${tool}`, arguments: { name } })

async function endOf(url: string, taskId: string) {
  return await vi.waitFor(
    async () => {
      const task = await request(url, 'tasks/get', { taskId })
      if (task.status === 'working') throw new Error('it still works')
      return task
    },
    { timeout: LIMIT_MS, interval: 100 },
  )
}

describe('a task made on one server', () => {
  it(
    'MCP-122, MCP-129: is read on another, and ends there',
    async () => {
      const { taskId } = await request(at(0), 'tools/call', callOf('Write', 'read-elsewhere'))
      expect(await request(at(1), 'tasks/get', { taskId })).toMatchObject({ status: 'working' })
      go('read-elsewhere')
      for (const url of [at(1), at(2), at(0)])
        expect(await endOf(url, taskId)).toMatchObject({
          status: 'completed',
          result: { structuredContent: 'read-elsewhere is done' },
        })
      expect(starts('read-elsewhere')).toBe(1)
    },
    LIMIT_MS,
  )

  it(
    'MCP-122: is cancelled on another',
    async () => {
      const { taskId } = await request(at(0), 'tools/call', callOf('Write', 'cancelled'))
      await request(at(1), 'tasks/cancel', { taskId })
      expect(await endOf(at(2), taskId)).toMatchObject({ taskId, status: 'cancelled' })
    },
    LIMIT_MS,
  )

  it(
    'MCP-127: of 2025-11-25 is listed and has its result on another',
    async () => {
      const clientInfo = { name: 'test', version: '1' }
      const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
      const opened = await post(at(0), { jsonrpc: '2.0', id: 0, method: 'initialize', params }, { headers })
      const session = opened.headers.get('mcp-session-id') ?? ''
      const legacy = async (index: number, method: string, sentParams: object) => {
        const sent = {
          headers: { ...headers, 'mcp-session-id': session, 'mcp-protocol-version': '2025-11-25' },
        }
        const { result, error } = await answerOf(
          await post(at(index), { jsonrpc: '2.0', id: 1, method, params: sentParams }, sent),
        )
        if (error !== undefined) throw new Error(error.message)
        return result
      }
      const { task } = await legacy(0, 'tools/call', { ...callOf('Write', 'legacy'), task: {} })
      const { tasks } = await legacy(1, 'tasks/list', {})
      expect(tasks.map(({ taskId }: { taskId: string }) => taskId)).toContain(task.taskId)
      const result = legacy(2, 'tasks/result', { taskId: task.taskId })
      go('legacy')
      expect(JSON.stringify(await result)).toContain('legacy is done')
    },
    LIMIT_MS,
  )

  it(
    'MCP-124: that waits for approval is approved on another and runs on a third',
    async () => {
      const { taskId } = await request(at(0), 'tools/call', callOf('Asks', 'approved'))
      const waiting = await request(at(1), 'tasks/get', { taskId })
      expect(waiting.status).toMatch(/input_required|working/)
      const boss = { authorization: 'Bearer boss-key-0123456789', 'content-type': 'application/json' }
      const listed = await (await fetch(`${at(1)}/admin/approvals`, { headers: boss })).text()
      const id: string = JSON.parse(listed).approvals[0].id
      const decided = await fetch(`${at(1)}/admin/approvals/${id}/approve`, {
        method: 'POST',
        headers: boss,
        body: '{}',
      })
      expect([decided.status, await decided.text()]).toEqual([200, expect.any(String)])
      go('approved')
      expect(await endOf(at(2), taskId)).toMatchObject({
        status: 'completed',
        result: { structuredContent: 'approved is done' },
      })
      expect(starts('approved')).toBe(1)
    },
    LIMIT_MS,
  )

  it(
    'MCP-129: survives its maker: a read runs again elsewhere, a write is reported as unknown',
    async () => {
      const read = await request(at(0), 'tools/call', callOf('Read', 'cut-read'))
      const write = await request(at(0), 'tools/call', callOf('Write', 'cut-write'))
      const parked = await request(at(0), 'tools/call', callOf('Asks', 'cut-asks'))
      await servers[0]?.stop('SIGKILL')
      go('cut-read')
      go('cut-write')
      expect(await endOf(at(1), read.taskId)).toMatchObject({
        status: 'completed',
        result: { structuredContent: 'cut-read is done' },
      })
      expect(await endOf(at(2), write.taskId)).toMatchObject({
        status: 'completed',
        result: { isError: true, _meta: { 'collet/errorCode': 'ambiguous' } },
      })
      expect((await request(at(2), 'tasks/get', { taskId: parked.taskId })).status).toMatch(
        /input_required|working/,
      )
      expect([starts('cut-read'), starts('cut-write'), starts('cut-asks')]).toEqual([2, 1, 0])
    },
    LIMIT_MS,
  )
})
