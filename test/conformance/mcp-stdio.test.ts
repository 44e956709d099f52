import { rmSync } from 'node:fs'
import { PassThrough } from 'node:stream'
import { afterEach, describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { prompt } from '#entries/prompt'
import { resource } from '#entries/resource'
import { Secret } from '#kernel/base/secret'
import type { DefinedTool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { StartRefused } from '#server/safety'
import { startStdio } from '#server/start-stdio'
import { testSettings } from '../test-settings.ts'
import { mcpFixtures } from './mcp-fixtures.ts'
import { Gate } from './mcp-gate.ts'

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
}
const INITIALIZE = {
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
}

/** The other end of the streams. */
class Peer {
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  readonly heard: any[] = []
  readonly input = new PassThrough()
  readonly #waiting = new Set<() => void>()

  hear(line: string): void {
    this.heard.push(JSON.parse(line))
    for (const wake of this.#waiting) wake()
    this.#waiting.clear()
  }

  say(message: object): void {
    this.input.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  }

  async answerTo(id: number | string) {
    for (;;) {
      const found = this.heard.find((message) => message.id === id)
      if (found !== undefined) return found
      await new Promise<void>((resolve) => this.#waiting.add(resolve))
    }
  }
}

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

async function startPeer(
  tools: readonly (object | DefinedTool)[],
  changes: Partial<Settings> = {},
  apiKey?: Secret,
  toolset?: string,
) {
  const settings = testSettings({ tools: requireTools(tools), ...changes })
  folders.push(settings.dataFolder)
  const peer = new Peer()
  const server = await startStdio(settings, {
    ...{ apiKey, toolset },
    write: (line) => peer.hear(line),
    graceMs: 2_000,
  })
  const served = server.serve(peer.input)
  return {
    peer,
    served,
    async end() {
      peer.input.end()
      await served
      await server.close()
    },
  }
}

describe('MCP on stdio', () => {
  it('rule 2: only the tools of the toolset exist, and an unknown toolset prevents the start', async () => {
    const { tools } = mcpFixtures()
    const settings = { toolsets: new Map([['one', { include: [tools[0]?.id ?? ''], exclude: [] }]]) }
    const { peer, end } = await startPeer(tools, settings, undefined, 'one')
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    }
    peer.say({ id: 1, method: 'tools/list', params: { _meta } })
    expect((await peer.answerTo(1)).result.tools).toHaveLength(1)
    const nameOf = (id = '') => id.replace('.', '_').replace(/@.*/, '')
    const name = tools.map(({ id }) => nameOf(id)).find((other) => other !== nameOf(tools[0]?.id))
    peer.say({ id: 2, method: 'tools/call', params: { name, arguments: {}, _meta } })
    expect((await peer.answerTo(2)).error.message).toMatch(/^Unknown tool/)
    await end()
    await expect(startPeer(tools, settings, undefined, 'oen')).rejects.toThrow('Did you mean "one"?')
  })

  it('MCP-99: a line that is not JSON gets no answer, and the next line does', async () => {
    const { peer, end } = await startPeer(mcpFixtures().tools)
    peer.input.write('garbage\n\n{"jsonrpc":"2.0","id":null,"method":"x"}\n')
    peer.say({ id: 1, method: 'ping' })
    expect(await peer.answerTo(1)).toEqual({ jsonrpc: '2.0', id: 1, result: {} })
    await end()
    expect(peer.heard).toHaveLength(1)
  })

  it('MCP-99: a line that is too long ends the server', async () => {
    const server = { ...testSettings().server, bodyLimitBytes: 100 }
    const { peer, served, end } = await startPeer([], { server })
    peer.input.write('x'.repeat(101))
    await served
    await end()
    expect(peer.heard).toEqual([])
  })

  it('MCP-97: accepts messages in chunks, several at once, and one without a line end', async () => {
    const { peer, end } = await startPeer([])
    const one = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })
    peer.input.write(one.slice(0, 9))
    peer.input.write(`${one.slice(9)}\r\n${one.replace('1,', '2,')}\n${one.replace('1,', '3,')}`)
    await end()
    expect(peer.heard.map(({ id }) => id)).toEqual([1, 2, 3])
  })

  it('MCP-100, MCP-31: both eras in one process; before initialize only ping and self-contained requests', async () => {
    const { peer, end } = await startPeer(mcpFixtures().tools)
    peer.say({ id: 1, method: 'tools/list' })
    expect(await peer.answerTo(1)).toMatchObject({ error: { code: -32600 } })
    peer.say({ id: 2, method: 'server/discover', params: { _meta: META } })
    expect(await peer.answerTo(2)).toMatchObject({ result: { supportedVersions: ['2026-07-28'] } })
    peer.say(INITIALIZE)
    expect(await peer.answerTo(0)).toMatchObject({ result: { protocolVersion: '2025-11-25' } })
    const params = { name: 'Math_Add', arguments: { a: 1, b: 2 } }
    peer.say({ id: 3, method: 'tools/call', params })
    peer.say({ id: 4, method: 'tools/call', params: { ...params, _meta: META } })
    expect((await peer.answerTo(3)).result.structuredContent).toEqual({ result: 3 })
    expect((await peer.answerTo(4)).result.structuredContent).toBe(3)
    peer.say({ ...INITIALIZE, id: 5 })
    expect(await peer.answerTo(5)).toMatchObject({ error: { code: -32600 } })
    await end()
  })

  it.each([
    ['an unknown version', { ...META, 'io.modelcontextprotocol/protocolVersion': 'v9' }, -32022],
    ['no capabilities', { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }, -32602],
  ])('MCP-34, MCP-32: %s is refused', async (_what, _meta, code) => {
    const { peer, end } = await startPeer([])
    peer.say({ id: 1, method: 'tools/list', params: { _meta } })
    expect(await peer.answerTo(1)).toMatchObject({ error: { code } })
    await end()
  })

  it('MCP-85, MCP-100: after a cancellation there is no message for that id', async () => {
    const gate = new Gate()
    const { peer, end } = await startPeer([gate.tool()])
    peer.say({ id: 'x', method: 'tools/call', params: { name: 'Gate_Pass', _meta: META } })
    await gate.begun
    peer.say({ method: 'notifications/cancelled', params: { requestId: 'x' } })
    await gate.aborted
    peer.say({ id: 'y', method: 'ping' })
    await end()
    expect(peer.heard.map(({ id }) => id)).toEqual(['y'])
  })

  it.each([
    { method: 'prompts/get', params: { name: 'Slow_Prompt' } },
    { method: 'resources/read', params: { uri: 'slow://resource' } },
  ])('MCP-85: $method is cancelled in a session and without one', async ({ method, params }) => {
    const begun = [Promise.withResolvers<AbortSignal>(), Promise.withResolvers<AbortSignal>()]
    let runs = 0
    const wait = async (signal: AbortSignal): Promise<string> => {
      begun[runs++]?.resolve(signal)
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      return 'too late'
    }
    const { peer, end } = await startPeer([
      prompt({
        id: 'Slow.Prompt@1.0.0',
        description: 'Waits.',
        run: (_args: object, { signal }: { readonly signal: AbortSignal }) => wait(signal),
      }),
      resource({
        id: 'Slow.Resource@1.0.0',
        uri: 'slow://resource',
        description: 'Waits.',
        read: (_request, { signal }) => wait(signal),
      }),
    ])
    peer.say(INITIALIZE)
    await peer.answerTo(0)
    peer.say({ id: 'old', method, params })
    peer.say({ id: 'new', method, params: { ...params, _meta: META } })
    const signals = await Promise.all(begun.map(({ promise }) => promise))
    for (const requestId of ['old', 'new'])
      peer.say({ method: 'notifications/cancelled', params: { requestId } })
    peer.say({ id: 'y', method: 'ping' })
    await end()
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true])
    expect(peer.heard.map(({ id }) => id)).toEqual([0, 'y'])
  })

  it('MCP-98: at the end of stdin running requests are answered first', async () => {
    const gate = new Gate()
    const { peer, end } = await startPeer([gate.tool()])
    peer.say({ id: 1, method: 'tools/call', params: { name: 'Gate_Pass', _meta: META } })
    await gate.begun
    const ended = end()
    gate.open()
    await ended
    expect(peer.heard).toMatchObject([{ id: 1, result: { structuredContent: 'through' } }])
  })

  it('MCP-47, MCP/T-4: a listen ends with its result, or with nothing when it was cancelled', async () => {
    const { peer, end } = await startPeer([])
    const params = { notifications: { toolsListChanged: true }, _meta: META }
    peer.say({ id: 'a', method: 'subscriptions/listen', params })
    peer.say({ id: 'b', method: 'subscriptions/listen', params })
    peer.say({ id: 'c', method: 'server/discover', params: { _meta: META } })
    await peer.answerTo('c')
    peer.say({ method: 'notifications/cancelled', params: { requestId: 'b' } })
    peer.say({ id: 'd', method: 'server/discover', params: { _meta: META } })
    await peer.answerTo('d')
    await end()
    expect(peer.heard.filter(({ id }) => id === 'a' || id === 'b')).toMatchObject([
      { id: 'a', result: { resultType: 'complete' } },
    ])
  })

  it('MCP-21: results name the call and its run, because there are no headers', async () => {
    const { peer, end } = await startPeer(mcpFixtures().tools)
    const meta = { ...META, 'collet/idempotencyKey': 'k-1' }
    const params = { name: 'Math_Add', arguments: { a: 1, b: 2 }, _meta: meta }
    peer.say({ id: 1, method: 'tools/call', params })
    const { _meta: first } = (await peer.answerTo(1)).result
    expect(first).toMatchObject({ 'collet/callId': 'k-1', 'collet/runId': expect.stringMatching(/./) })
    peer.say({ id: 2, method: 'tools/call', params })
    expect((await peer.answerTo(2)).result._meta['collet/runId']).toBe(first['collet/runId'])
    await end()
  })

  it('MCP-93, MCP-98: once keys exist, the environment must contain one', async () => {
    const auth = {
      apiKeys: [{ id: 'alice', key: new Secret('k-alice'), tenant: 'default', scopes: ['mail:peek'] }],
      jwt: undefined,
    }
    await expect(startPeer([], { auth })).rejects.toThrow(StartRefused)
    const { peer, end } = await startPeer(mcpFixtures().tools, { auth }, new Secret('k-alice'))
    peer.say({ id: 1, method: 'tools/call', params: { name: 'Mail_Peek', _meta: META } })
    expect((await peer.answerTo(1)).result.structuredContent).toBe('peeked')
    await end()
  })
})
