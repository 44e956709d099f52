import { rmSync } from 'node:fs'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { requireTools } from '#kernel/tool/prepare-tools'
import { type RunningServer, startServer } from '#server/start-server'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { answerOf, ask } from '../conformance/mcp-talk.ts'
import { taskTools } from '../conformance/mcp-task-tools.ts'
import { EVERYTHING } from '../sources/everything-server.ts'
import { testSettings } from '../test-settings.ts'

const LIMIT_MS = 90_000
const CAPABILITIES = { elicitation: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } }

/** A tool of an old and one of a new server. Each asks something in the middle of a task. */
const ROWS = [
  {
    server: 'server-everything (2025-11-25)',
    name: 'simulate-research-query',
    input: { topic: 'python', ambiguous: true },
    answer: { interpretation: 'snake' },
    text: 'python (snake)',
  },
  {
    server: 'another Collet (2026-07-28)',
    name: 'confirm_delete',
    input: { filename: 'notes.txt' },
    answer: { confirm: true },
    text: 'Deleted.',
  },
] as const

describe('tasks of servers behind Collet', () => {
  const folders: string[] = []
  let behind: RunningServer
  let collet: RunningServer
  let names: readonly string[]

  beforeAll(async () => {
    const upstream = testSettings({ tools: requireTools(taskTools(), { describeParameters: false }) })
    behind = await startServer(upstream, { graceMs: 0 })
    const settings = testSettings({
      sources: new Map([
        ['Old', MCP_OPTIONS.parse({ type: 'mcp', command: process.execPath, args: [EVERYTHING, 'stdio'] })],
        ['New', MCP_OPTIONS.parse({ type: 'mcp', url: `${behind.url}/mcp` })],
      ]),
    })
    folders.push(upstream.dataFolder, settings.dataFolder)
    collet = await startServer(settings, { graceMs: 0 })
    await collet.sourceRead('Old')
    await collet.sourceRead('New')
    const { result } = await answerOf(await ask(collet.url, { method: 'tools/list' }))
    names = result.tools.map(({ name }: { name: string }) => name)
  }, LIMIT_MS)
  afterAll(async () => {
    await collet.close()
    await behind.close()
    for (const folder of folders) rmSync(folder, { recursive: true })
  })

  const servedName = (name: string): string =>
    names.find((known) => known.endsWith(name.replaceAll('-', '_'))) ?? name

  it.each(ROWS)(
    'MCP-119, MCP-125, MCP-127: the official client of 2025-11-25 runs a task of $server',
    async ({ name, input, answer, text }) => {
      const client = new Client(
        { name: 'test', version: '1' },
        { capabilities: { elicitation: { form: {} } } },
      )
      client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { ...answer } }))
      await client.connect(new StreamableHTTPClientTransport(new URL(`${collet.url}/mcp`)))
      try {
        const called = { name: servedName(name), arguments: { ...input } }
        const seen: string[] = []
        let result = ''
        const stream = client.experimental.tasks.callToolStream(called, CallToolResultSchema, { task: {} })
        for await (const message of stream) {
          seen.push(message.type)
          if (message.type === 'error') throw message.error
          if (message.type === 'result') result = JSON.stringify(message.result)
        }
        expect(seen).toContain('taskCreated')
        expect(result).toContain(text)
      } finally {
        await client.close()
      }
    },
    LIMIT_MS,
  )

  it.each(ROWS)(
    'MCP-119, MCP-121, MCP-122: a client of 2026-07-28 gets a task for a call of $server',
    async ({ name, input, answer, text }) => {
      const request = async (method: string, params: object) => {
        const { result, error } = await answerOf(
          await ask(collet.url, { method, params, capabilities: CAPABILITIES }),
        )
        if (error !== undefined) throw new Error(error.message)
        return result
      }
      const { taskId } = await request('tools/call', { name: servedName(name), arguments: input })
      let task = await request('tasks/get', { taskId })
      while (task.status === 'working' || task.status === 'input_required') {
        const inputResponses = Object.fromEntries(
          Object.keys(task.inputRequests ?? {}).map((key) => [key, { action: 'accept', content: answer }]),
        )
        if (task.status === 'input_required') await request('tasks/update', { taskId, inputResponses })
        await new Promise((resolve) => setTimeout(resolve, 100))
        task = await request('tasks/get', { taskId })
      }
      expect(task.status).toBe('completed')
      expect(JSON.stringify(task.result)).toContain(text)
    },
    LIMIT_MS,
  )

  it.each(ROWS)(
    'MCP-119: a client without tasks waits for the result of $server',
    async ({ name, input }) => {
      const params = {
        name: servedName(name),
        arguments: { ...input, ...('ambiguous' in input ? { ambiguous: false } : {}) },
      }
      const { result } = await answerOf(await ask(collet.url, { method: 'tools/call', params }))
      expect(result).toMatchObject({ resultType: 'complete', content: [{ type: 'text' }] })
      expect(result.isError).toBeUndefined()
    },
    LIMIT_MS,
  )
})
