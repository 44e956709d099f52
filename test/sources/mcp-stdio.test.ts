import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import type { Elicitation } from '#kernel/base/elicitation'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { endpointOf } from '#sources/mcp/upstream'
import { callContext } from './call-context.ts'
import { contentOf, faulty, isAlive } from './fault-mcp.ts'
import { openTestMcp } from './test-mcp.ts'

const ALICE = { id: 'key:alice', tenant: 'default', scopes: [] }
const IN_SESSION = {
  ...{ sessionId: 'ses_1', principal: ALICE, userId: undefined, claimedUserId: undefined, log: console },
}
const BOB = { id: 'key:bob', tenant: 'default', scopes: [] }

/** A clock that advances only when the test advances it. */
class SetClock {
  ms = 0
  nowMs = (): number => Date.now()
  monotonicMs = (): number => this.ms
}

describe('a program that speaks MCP', () => {
  it('MCP/T-24: may exit or stay silent at the era probe', async () => {
    const quits = await openTestMcp(faulty('quits')).discover()
    expect(quits.tools.length).toBe(16)
    const unresponsive = openTestMcp({ ...faulty('deaf'), connectTimeoutMs: 20_000 })
    expect((await unresponsive.discover()).tools.length).toBe(16)
  }, 30_000)

  it('MCP-99: may write lines that are not messages', async () => {
    const upstream = openTestMcp(faulty('garbage'))
    expect(contentOf(await upstream.call('count'))).toBe(1)
  })

  it('MCP/T-29: may be of the first revision', async () => {
    const upstream = openTestMcp(faulty('ancient'))
    expect(contentOf(await upstream.call('count'))).toBe(1)
  })

  it('MCP/T-12: is read to the last page, and repeated cursors end the list', async () => {
    const paged = await openTestMcp(faulty('pages')).discover()
    expect(paged.tools.length).toBe(16)
    expect(paged.warnings).toEqual([])
    const circle = await openTestMcp(faulty('circle')).discover()
    expect(circle.tools.length).toBe(16)
    expect(circle.warnings.join()).toContain('form a loop')
  })

  it('an endless list is truncated', async () => {
    const { tools, warnings } = await openTestMcp(faulty('endless')).discover()
    expect(tools.length).toBe(10_000)
    expect(warnings).toContain('only the first 10000 tools are read')
  }, 30_000)

  it('gets only the environment configured for it', async () => {
    vi.stubEnv('COLLET_TEST_CANARY', 'canary')
    const upstream = openTestMcp({ ...faulty('plain'), env: { OWN: 'value' } })
    const environment = contentOf(await upstream.call('env'))
    expect(environment).toMatchObject({ OWN: 'value' })
    expect(JSON.stringify(environment)).not.toContain('canary')
    vi.unstubAllEnvs()
  })

  it('rule 27: gets the key of the effect in _meta', async () => {
    const upstream = openTestMcp(faulty('plain'))
    expect(contentOf(await upstream.call('meta'))).toMatchObject({ 'collet/idempotencyKey': 'effect-key' })
  })

  it('MCP-82: reports its progress', async () => {
    const upstream = openTestMcp(faulty('plain'))
    const steps: unknown[] = []
    await upstream.call('steps', {}, { progress: (...step) => void steps.push(step) })
    expect(steps).toEqual([
      [1, 2, undefined],
      [2, 2, undefined],
    ])
  })

  it('MCP-85, MCP-88: is notified of a cancelled or timed-out call', async () => {
    const upstream = openTestMcp(faulty('plain'))
    await upstream.call('count')
    const stop = new AbortController()
    const waiting = upstream.call('wait', {}, { signal: stop.signal })
    await upstream.call('count')
    stop.abort(new DOMException('The tool ran out of time.', 'TimeoutError'))
    await expect(waiting).rejects.toMatchObject({ name: 'TimeoutError' })
    expect(contentOf(await upstream.call('cancelled'))).toBe(1)
  })

  it('§7.3: keeps state per principal and per user', async () => {
    const upstream = openTestMcp(faulty('plain'))
    expect(contentOf(await upstream.call('count', {}, { principal: ALICE }))).toBe(1)
    expect(contentOf(await upstream.call('count', {}, { principal: ALICE }))).toBe(2)
    expect(contentOf(await upstream.call('count', {}, { principal: BOB }))).toBe(1)
    expect(contentOf(await upstream.call('count', {}, { principal: ALICE, userId: 'u1' }))).toBe(1)
    const shared = openTestMcp({ ...faulty('plain'), connection: 'shared' })
    expect(contentOf(await shared.call('count', {}, { principal: ALICE }))).toBe(1)
    expect(contentOf(await shared.call('count', {}, { principal: BOB }))).toBe(2)
  })

  it('§7.3: gives a session its own process, and ends both together', async () => {
    const upstream = openTestMcp(faulty('plain'))
    const { tools } = await upstream.discover()
    const [tool] = tools
    const session = tool === undefined ? undefined : upstream.source.sessionOf?.(tool)
    expect(session?.isOptional).toBe(true)
    const state = await session?.open(IN_SESSION)
    await upstream.call('count')
    expect(contentOf(await upstream.call('count', {}, { session: state }))).toBe(1)
    expect(contentOf(await upstream.call('count', {}, { session: state }))).toBe(2)
    const pid = Number(contentOf(await upstream.call('pid', {}, { session: state })))
    await session?.close?.(state, IN_SESSION)
    await vi.waitUntil(() => !isAlive(pid), { timeout: 5000 })
  })

  it('rule 30: a session whose process died is lost', async () => {
    const upstream = openTestMcp(faulty('plain'))
    const { tools } = await upstream.discover()
    const [tool] = tools
    const session = tool === undefined ? undefined : upstream.source.sessionOf?.(tool)
    const state = await session?.open(IN_SESSION)
    await upstream.call('count', {}, { session: state })
    await expect(upstream.call('die', {}, { session: state })).rejects.toMatchObject({
      code: 'upstream_failed',
    })
    await expect(upstream.call('count', {}, { session: state })).rejects.toMatchObject({
      code: 'session_lost',
    })
  })

  it('asks the user of the call, and gets the answer', async () => {
    const upstream = openTestMcp(faulty('plain'))
    const asked: Elicitation[] = []
    const elicit = async (question: Elicitation) => {
      asked.push(question)
      return { action: 'accept', content: { name: 'Ann' } } as const
    }
    expect(contentOf(await upstream.call('ask', { question: 'Who?' }, { elicit }))).toEqual({
      action: 'accept',
      content: { name: 'Ann' },
    })
    expect(asked).toMatchObject([
      {
        mode: 'form',
        message: 'The MCP server "Up" asks: Who?',
        schema: { type: 'object' },
        untrusted: true,
      },
    ])
    expect(contentOf(await upstream.call('ask', {}))).toEqual({ action: 'decline' })
  })

  it('MCP-80: sends the user to a page first, and repeats the call afterwards', async () => {
    const upstream = openTestMcp(faulty('plain'))
    const asked: Elicitation[] = []
    const elicit = async (question: Elicitation) => {
      asked.push(question)
      return { action: 'accept' } as const
    }
    expect(contentOf(await upstream.call('visit', {}, { elicit }))).toBe('visited')
    const message = 'The MCP server "Up" asks: Sign in'
    expect(asked).toEqual([
      { mode: 'url', message, url: 'https://up.example/sign-in', id: 'e1', untrusted: true },
    ])
    const declined = openTestMcp(faulty('plain'))
    await expect(declined.call('visit')).rejects.toMatchObject({
      code: 'upstream_failed',
      errorNumber: -32_042,
    })
  })

  it('ledger §3: a server that asks gets one call at a time, so that answers find their call', async () => {
    const upstream = openTestMcp(faulty('plain'))
    await upstream.call('ask', {})
    const names = Array.from({ length: 5 }, (_, index) => `name ${index}`)
    const answers = await Promise.all(
      names.map((name) =>
        upstream.call('ask', {}, { elicit: async () => ({ action: 'accept', content: { name } }) }),
      ),
    )
    expect(answers.map(contentOf)).toEqual(names.map((name) => ({ action: 'accept', content: { name } })))
  })

  it('ledger §3: a question that matches two calls is cancelled, not answered by the wrong user', async () => {
    const upstream = openTestMcp(faulty('plain'))
    await upstream.call('count')
    const elicit = vi.fn(async () => ({ action: 'accept', content: { name: 'Ann' } }) as const)
    const stop = new AbortController()
    const waiting = upstream.call('wait', {}, { signal: stop.signal })
    expect(contentOf(await upstream.call('ask', {}, { elicit }))).toEqual({ action: 'cancel' })
    expect(elicit).not.toHaveBeenCalled()
    stop.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
  })

  it('MCP-46: sends a notification when its tools change', async () => {
    const clock = new SetClock()
    const upstream = openTestMcp(faulty('plain'), { services: { clock } })
    const onChange = vi.fn()
    upstream.source.watch?.(onChange)
    await upstream.discover()
    // MCP/T-25: a notification right after the handshake belongs to the handshake.
    await upstream.call('change', {}, { principal: ALICE })
    expect(onChange).not.toHaveBeenCalled()
    clock.ms += 1000
    await upstream.call('change', {}, { principal: ALICE })
    expect(onChange).toHaveBeenCalledTimes(1)
  })
})

describe('a program that fails', () => {
  it('rule 9: a call is not repeated after the program dies', async () => {
    const upstream = openTestMcp(faulty('plain'))
    await upstream.discover()
    const death = await upstream.call('die').catch((error: unknown) => error)
    expect(death).toMatchObject({ code: 'upstream_failed', canRetry: false })
    expect(upstream.source.health()).toMatchObject({ state: 'degraded' })
    expect(upstream.source.health().reason).toContain('exited with code 7')
  })

  it('is started again after its death', async () => {
    const upstream = openTestMcp(faulty('plain'))
    await upstream.call('count')
    await upstream.call('die').catch(() => undefined)
    const refused = await upstream.call('count').catch((error: unknown) => error)
    expect(refused).toMatchObject({ code: 'upstream_failed', canRetry: true })
    await vi.waitFor(async () => expect(contentOf(await upstream.call('count'))).toBe(1), {
      timeout: 5000,
      interval: 100,
    })
    expect(upstream.source.health()).toEqual({ state: 'ready' })
  })

  it('that hangs costs its timeout once, then fails fast', async () => {
    const upstream = openTestMcp({ ...faulty('silent'), connectTimeoutMs: 500 })
    const failure = await upstream.discover().catch((error: unknown) => error)
    expect(failure).toMatchObject({ code: 'upstream_failed', canRetry: true })
    expect(upstream.source.health()).toMatchObject({ state: 'down' })
  })

  it('that hangs does not delay calls during its back-off', async () => {
    const log = join(mkdtempSync(join(tmpdir(), 'collet-mcp-')), 'starts')
    const hanging = faulty('silent', [log])
    const services = { clock: new SetClock() }
    const upstream = openTestMcp({ ...hanging, connectTimeoutMs: 2000, revision: 'legacy' }, { services })
    await upstream.discover().catch(() => undefined)
    const starts = readFileSync(log, 'utf8')
    const calling = upstream.source.invoke({
      nativeName: 'count',
      input: {},
      binding: {
        endpoint: endpointOf(MCP_OPTIONS.parse({ type: 'mcp', ...hanging }), { folder: '/' }).pinned,
      },
      context: callContext(),
    })
    await expect(calling).rejects.toMatchObject({
      code: 'upstream_failed',
      canRetry: true,
      retryAfterMs: 500,
    })
    expect(readFileSync(log, 'utf8')).toBe(starts)
  }, 20_000)

  it('that crashes in a loop is restarted with increasing delays', async () => {
    const upstream = openTestMcp(faulty('crashes'))
    const reported: number[] = []
    const again = (): void => void upstream.discover().catch(() => undefined)
    upstream.source.watch?.(() => {
      reported.push(performance.now())
      again()
    })
    again()
    await vi.waitUntil(() => reported.length === 3, { timeout: 30_000 })
    const [first = 0, second = 0, third = 0] = reported
    // No timer is early: half a second before the first, then one and two.
    expect(second - first).toBeGreaterThan(990)
    expect(third - second).toBeGreaterThan(1990)
  }, 40_000)

  it('a message longer than allowed ends the connection, not the server', async () => {
    const upstream = openTestMcp({ ...faulty('plain'), maxMessageBytes: 100_000 })
    const huge = await upstream.call('huge', { bytes: 200_000 }).catch((error: unknown) => error)
    expect(huge).toMatchObject({
      code: 'result_too_large',
      canRetry: false,
      message:
        'The MCP server behind the tool sent a message that is longer than 100000 bytes, so the answer is not shown. If the call was meant to change something, do not repeat it; if it only reads, ask for less. An operator can raise `maxMessageBytes` of the source.',
    })
    expect(upstream.source.health().reason).toContain('longer than 100000 bytes')
    // A call that finds the program gone does not hide why it is.
    await expect(upstream.call('huge', { bytes: 1 })).rejects.toMatchObject({ canRetry: true })
    expect(upstream.source.health().reason).toContain('longer than 100000 bytes')
  })

  it('large results are accepted', async () => {
    const upstream = openTestMcp(faulty('plain'))
    expect(String(contentOf(await upstream.call('huge', { bytes: 5_000_000 }))).length).toBe(5_000_000)
  })

  it('that cannot be started is reported', async () => {
    const upstream = openTestMcp({ command: '/nowhere/at/all' })
    await expect(upstream.discover()).rejects.toMatchObject({ code: 'upstream_failed' })
    expect(upstream.source.health().reason).toContain('ENOENT')
  })
})
