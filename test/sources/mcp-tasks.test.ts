import { randomUUID } from 'node:crypto'
import { afterEach, describe, expect, it } from 'vitest'
import type { Elicitation } from '#kernel/base/elicitation'
import { Gate } from '../conformance/mcp-gate.ts'
import { endTalks, startTalk } from '../conformance/mcp-talk.ts'
import { taskTools } from '../conformance/mcp-task-tools.ts'
import { testSettings } from '../test-settings.ts'
import { EVERYTHING, freePort, startEverything } from './everything-server.ts'
import { type OpenedMcp, openMcp } from './open-mcp.ts'

const LIMIT_MS = 60_000
const RESEARCH = 'simulate-research-query'
const ends: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
  await endTalks()
})

function open(options: Record<string, unknown>): OpenedMcp {
  const opened = openMcp(options)
  ends.push(async () => await opened.source.close?.())
  return opened
}

/** A key of its own for each call, because the server behind keeps it. */
const effectKey = (): string => randomUUID()

/** The context of a person who accepts every form with the same content, and the questions that were asked. */
function person(content: Record<string, string | boolean>) {
  const asked: Elicitation[] = []
  const messages: (string | undefined)[] = []
  return {
    asked,
    messages,
    context: {
      effectKey,
      elicit: async (question: Elicitation) => {
        asked.push(question)
        return { action: 'accept', content } as const
      },
      progress: (_done: number, _total?: number, message?: string) => void messages.push(message),
    },
  }
}

describe('tools of 2025-11-25 that run only as tasks', () => {
  it.each(['stdio', 'http'])(
    'MCP-119: server-everything on %s runs its task, asks its question and reports its messages',
    async (transport) => {
      const everything = transport === 'http' ? await startEverything(await freePort()) : undefined
      if (everything !== undefined) ends.push(() => everything.stop())
      const up = open(
        everything === undefined
          ? { command: process.execPath, args: [EVERYTHING, 'stdio'] }
          : { url: everything.url },
      )
      const { tools } = await up.discover()
      expect(tools.find(({ nativeName }) => nativeName === RESEARCH)).toMatchObject({
        binding: { task: 'required' },
        policy: { timeoutMs: 3_600_000 },
      })
      const { asked, messages, context } = person({ interpretation: 'snake' })
      const result = await up.call(RESEARCH, { topic: 'python', ambiguous: true }, context)
      expect(JSON.stringify(result)).toContain('Research Report: python (snake)')
      expect(asked).toMatchObject([{ mode: 'form', message: expect.stringContaining('python') }])
      expect(messages.join()).toContain('Gathering sources')
    },
    LIMIT_MS,
  )
})

describe('calls that a server of 2026-07-28 answers with a task', () => {
  const SOON = { mcp: { ...testSettings().mcp, taskAfterMs: 1 } }

  it('MCP-119: the task is followed to its result, its question is asked, its failures are failures', async () => {
    const { server } = await startTalk(taskTools(), SOON)
    const up = open({ url: `${server.url}/mcp` })
    expect(await up.call('slow_compute', { seconds: 0.1 }, { effectKey })).toEqual({
      content: [{ type: 'text', text: 'Computed.' }],
    })
    const { asked, context } = person({ confirm: true })
    expect(JSON.stringify(await up.call('confirm_delete', { filename: 'x' }, context))).toContain('Deleted.')
    expect(asked).toHaveLength(1)
    await expect(up.call('failing_job', {}, { effectKey })).rejects.toMatchObject({
      code: 'tool_failed',
      message: 'The job failed.',
    })
    await expect(up.call('protocol_error_job', {}, { effectKey })).rejects.toMatchObject({
      code: 'upstream_failed',
      errorNumber: -32_603,
    })
  })

  it('MCP-119: a call that is aborted cancels its task', async () => {
    const gate = new Gate()
    const { server } = await startTalk([gate.tool()], SOON)
    const up = open({ url: `${server.url}/mcp` })
    await up.discover()
    const stop = new AbortController()
    // The id of a task is kept as soon as the answer with it has arrived. An earlier abort closes the request instead.
    const created = Promise.withResolvers<void>()
    const resumption = {
      isRepeated: false,
      find: async () => undefined,
      keep: async () => created.resolve(),
    }
    const call = up.call('Gate_Pass', {}, { signal: stop.signal, resumption })
    const ended = expect(call).rejects.toThrow()
    await created.promise
    stop.abort()
    await ended
    await gate.aborted
  })
})
