import { execFile } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it, vi } from 'vitest'
import { ProcessLimit } from '#sources/mcp/pool'
import { contentOf, faulty, isAlive } from './fault-mcp.ts'
import { openMcp } from './open-mcp.ts'
import { openTestMcp } from './test-mcp.ts'

const ALICE = { id: 'key:alice', tenant: 'default', scopes: [] }
const BOB = { id: 'key:bob', tenant: 'default', scopes: [] }

describe('processes of MCP programs', () => {
  it('MCP-101: are ended with all processes they started, even if they ignore signals', async () => {
    const upstream = openMcp(faulty('stubborn'))
    const pids = contentOf(await upstream.call('fork'))
    if (!Array.isArray(pids)) throw new Error('no pids')
    expect(pids.map(isAlive)).toEqual([true, true])
    await upstream.source.close()
    await vi.waitUntil(() => !pids.some(isAlive), { timeout: 5000 })
  }, 20_000)

  it('end with a server that exits without closing its sources', async () => {
    const code = `
      import { openMcp } from ${JSON.stringify(new URL('./open-mcp.ts', import.meta.url).href)}
      const upstream = openMcp(${JSON.stringify(faulty('stubborn'))})
      console.log(JSON.stringify(await upstream.call('fork')))
      process.exit(0)`
    const flags = [
      '--conditions=collet-source',
      '--disable-warning=ExperimentalWarning',
      '--input-type=module',
    ]
    const { stdout } = await promisify(execFile)(process.execPath, [...flags, '-e', code])
    const pids = contentOf(JSON.parse(stdout))
    if (!Array.isArray(pids)) throw new Error('no pids')
    await vi.waitUntil(() => !pids.some(isAlive), { timeout: 5000 })
  }, 20_000)

  it('end when their parent dies', async () => {
    const upstream = openTestMcp(faulty('plain'))
    const pids = contentOf(await upstream.call('fork'))
    if (!Array.isArray(pids)) throw new Error('no pids')
    await upstream.call('die').catch(() => undefined)
    await vi.waitUntil(() => !pids.some(isAlive), { timeout: 5000 })
  })

  it('are ended when idle', async () => {
    const upstream = openTestMcp({ ...faulty('plain'), idleMs: 200 })
    const pid = Number(contentOf(await upstream.call('pid')))
    await vi.waitUntil(() => !isAlive(pid), { timeout: 5000 })
    expect(upstream.source.health()).toEqual({ state: 'ready' })
  })

  it('are limited per source: an idle one is replaced, a busy one is not', async () => {
    const upstream = openTestMcp({ ...faulty('plain'), maxConnections: 2 })
    await upstream.discover()
    const first = Number(contentOf(await upstream.call('pid', {}, { principal: ALICE })))
    const second = Number(contentOf(await upstream.call('pid', {}, { principal: BOB })))
    const carol = { id: 'key:carol', tenant: 'default', scopes: [] }
    const third = Number(contentOf(await upstream.call('pid', {}, { principal: carol })))
    expect([first, second, third].filter(isAlive).length).toBeLessThanOrEqual(2)
    const stop = new AbortController()
    const busy = [BOB, carol].map((principal) =>
      upstream.call('wait', {}, { principal, signal: stop.signal }),
    )
    await vi.waitUntil(() => upstream.source.health().state === 'ready')
    await Promise.all([BOB, carol].map((principal) => upstream.call('count', {}, { principal })))
    await expect(upstream.call('count', {}, { principal: ALICE })).rejects.toMatchObject({
      code: 'upstream_failed',
      canRetry: true,
    })
    stop.abort(new Error('enough'))
    await Promise.allSettled(busy)
  })

  it('are limited in total', async () => {
    const processes = new ProcessLimit(1)
    const left = openTestMcp(faulty('plain'), { processes })
    const right = openTestMcp(faulty('plain'), { processes })
    await left.discover()
    await right.discover()
    expect(processes.taken).toBe(1)
    await Promise.all([left.source.close(), right.source.close()])
    expect(processes.taken).toBe(0)
  })

  it('have all ended after a close during the start', async () => {
    const log = join(mkdtempSync(join(tmpdir(), 'collet-mcp-')), 'starts')
    const processes = new ProcessLimit()
    const upstream = openMcp(faulty('late', [log]), { processes })
    const discovering = upstream.discover().catch((error: unknown) => error)
    await vi.waitUntil(() => processes.taken === 1)
    await upstream.source.close()
    expect(await discovering).toMatchObject({ code: 'upstream_failed' })
    expect(processes.taken).toBe(0)
  })
})
