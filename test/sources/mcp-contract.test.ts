import assert from 'node:assert/strict'
import { describe, it } from 'vitest'
import { SOURCE_CONTRACT, type SourceUnderTest } from '../contracts/source-contract.ts'
import { EVERYTHING, FILESYSTEM, freePort, startEverything } from './everything-server.ts'
import { startModernServer } from './modern-mcp-server.ts'
import { openMcp } from './open-mcp.ts'

const ECHO = {
  nativeName: 'echo',
  input: { message: 'hi' },
  check: (value: unknown) => assert.deepEqual(value, { content: [{ type: 'text', text: 'Echo: hi' }] }),
}
const LONG = { nativeName: 'trigger-long-running-operation', input: { duration: 10, steps: 2 } }
const nothing = async (): Promise<void> => undefined

const COUNTERPARTS: Record<string, () => Promise<SourceUnderTest>> = {
  'server-everything on stdio': async () => ({
    source: openMcp({ command: process.execPath, args: [EVERYTHING, 'stdio'] }).source,
    good: ECHO,
    slow: LONG,
    close: nothing,
  }),
  'server-filesystem on stdio': async () => ({
    source: openMcp({ command: process.execPath, args: [FILESYSTEM, '.'] }).source,
    good: {
      nativeName: 'list_allowed_directories',
      input: {},
      check: (value) => assert.match(JSON.stringify(value), /Allowed directories/),
    },
    close: nothing,
  }),
  'server-everything on Streamable HTTP': async () => {
    const server = await startEverything(await freePort())
    let isStopped = false
    const stop = async (): Promise<void> => {
      if (!isStopped) await server.stop()
      isStopped = true
    }
    return { source: openMcp({ url: server.url }).source, good: ECHO, slow: LONG, stop, close: stop }
  },
  'the official server of 2026-07-28': async () => {
    const server = await startModernServer()
    return {
      source: openMcp({ url: server.url }).source,
      good: { nativeName: 'add', input: { a: 1, b: 2 }, check: (value) => assert.equal(value, 3) },
      slow: { nativeName: 'wait', input: {} },
      stop: () => server.close(),
      close: () => server.close(),
    }
  },
}

describe.each(Object.entries(COUNTERPARTS))('the contract of a source, with %s', (_name, open) => {
  it.each(SOURCE_CONTRACT.map(({ name, run }) => [name, run] as const))(
    '%s',
    async (_case, run) => run(open),
    30_000,
  )
})
