import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { approverKeyOf } from './approver-key.ts'
import { checkJournal } from './check-journal.ts'
import { CRASH_PACE } from './crash-stage.ts'
import { readEffects } from './effect-log.ts'
import { exchange } from './exchange.ts'
import { crashServer, ServerProcess } from './server-process.ts'

const LIMIT_MS = 60_000
const APPROVED = 'Effect.Approved@1.0.0'
const HELD = 'Effect.Held@1.0.0'
const CLI = createRequire(import.meta.url).resolve('#cli/main')

/** How each protocol calls a tool and reports the outcome. */
const PROTOCOLS = {
  OTC: {
    path: '/tools/call',
    body: (tool: string, key: string) => ({ request: { tool_id: tool, call_id: key, input: { key } } }),
  },
  OpenTool: {
    path: '/opentool/call',
    body: (tool: string, key: string) => {
      const method = tool.replace('.', '_').replace(/@.*/, '')
      return { jsonrpc: '2.0', method, params: { key }, id: key }
    },
  },
} as const
type Protocol = keyof typeof PROTOCOLS

describe('approvals on a server that is killed', { timeout: LIMIT_MS }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'collet-approvals-'))
  const masterKey = randomBytes(32).toString('base64')
  const apiKey = randomBytes(32).toString('hex')
  const approver = approverKeyOf(apiKey)
  const servers = [0, 1].map(() => new ServerProcess(crashServer({ folder, masterKey, apiKey, seed: 7 })))
  const [server, other] = servers as [ServerProcess, ServerProcess]

  beforeAll(() => {
    for (const process of servers) process.start()
  })
  afterAll(async () => {
    await Promise.all(servers.map((process) => process.stop()))
    rmSync(folder, { recursive: true, force: true })
  })

  async function ask(path: string, body?: object, as = apiKey, from = server) {
    const address = { url: await from.url(), apiKey: as, limitMs: CRASH_PACE.replyLimitMs }
    const question =
      body === undefined
        ? ({ method: 'GET' } as const)
        : ({ method: 'POST', body: JSON.stringify(body) } as const)
    return await exchange(address, path, question)
  }
  async function call(protocol: Protocol, tool: string, key: string, from = server) {
    const { path, body } = PROTOCOLS[protocol]
    const address = { url: await from.url(), apiKey, limitMs: CRASH_PACE.replyLimitMs }
    const headers = { 'idempotency-key': key }
    const answer = await exchange(address, path, {
      method: 'POST',
      body: JSON.stringify(body(tool, key)),
      headers: protocol === 'OTC' ? {} : headers,
    })
    return { ...answer, code: answer?.headers.get('collet-error-code') ?? undefined }
  }
  async function restart(): Promise<void> {
    await server.kill()
    server.start()
    await server.url()
  }
  async function newest(key: string) {
    const answer = await ask('/admin/approvals?limit=1000', undefined, approver)
    const { approvals } = JSON.parse(answer?.text ?? '{}')
    return approvals.find((found: { call_id: string }) => found.call_id === key)
  }
  const effectsOf = (key: string) =>
    readEffects(join(folder, 'effects.log')).filter((effect) => effect.key === key)

  /** Repeats the call until the tool does not throw at random: each attempt needs its own approval. */
  async function approveAndRun(protocol: Protocol, key: string, decide: () => Promise<unknown>) {
    for (let attempt = 0; attempt < 3; attempt += 1) {
      await decide()
      const done = await call(protocol, APPROVED, key)
      if (done.code !== 'tool_failed') return done
      await call(protocol, APPROVED, key)
    }
    return expect.fail('three attempts failed')
  }

  it.each(['OTC', 'OpenTool'] as const)(
    'rule 20: %s: parked → kill → approved through openwop → the repetition runs once',
    async (protocol) => {
      const key = `parked-${protocol}`
      expect((await call(protocol, APPROVED, key)).code).toBe('approval_required')
      await restart()
      expect((await call(protocol, APPROVED, key)).code).toBe('approval_required')
      const done = await approveAndRun(protocol, key, async () => {
        const { run_id: runId, record } = await newest(key)
        const path = `/v1/runs/${runId}/interrupts/${record}`
        const answer = await ask(path, { resumeValue: { action: 'accept' } }, approver)
        expect(answer?.status).toBe(200)
      })
      expect(done.code).toBeUndefined()
      expect(effectsOf(key)).toHaveLength(1)
      await restart()
      expect((await call(protocol, APPROVED, key)).text).toBe(done.text)
      expect(effectsOf(key)).toHaveLength(1)
    },
  )

  it('rule 20: approved → kill before the run → the repetition runs once, on the one grant', async () => {
    const key = 'approved'
    await call('OTC', APPROVED, key)
    const done = await approveAndRun('OTC', key, async () => {
      const { id } = await newest(key)
      await ask(`/admin/approvals/${id}/approve`, {}, approver)
      await restart()
    })
    expect(done.code).toBeUndefined()
    expect(effectsOf(key)).toHaveLength(1)
    expect(await newest(key)).toMatchObject({ state: 'used' })
  })

  it('rules 8 and 20: running → kill → ambiguous, and the grant is not used again', async () => {
    const key = 'held'
    await call('OTC', HELD, key)
    const { id } = await newest(key)
    await ask(`/admin/approvals/${id}/approve`, {}, approver)
    const cut = call('OTC', HELD, key)
    await vi.waitFor(() => expect(effectsOf(key)).toHaveLength(1), { timeout: 10_000, interval: 20 })
    await restart()
    expect((await cut).status).toBeUndefined()
    expect((await call('OTC', HELD, key)).code).toBe('ambiguous')
    const again = await ask(`/admin/approvals/${id}/approve`, {}, approver)
    expect(again?.status).toBe(409)
    expect(await newest(key)).toMatchObject({ id, state: 'used' })
    expect(effectsOf(key)).toHaveLength(1)
  })

  it('OWP-68: of decisions in two processes, and on the command line, exactly one wins', async () => {
    const key = 'two'
    await call('OTC', HELD, key)
    const { id } = await newest(key)
    const decide = (verb: string, from: ServerProcess) =>
      ask(`/admin/approvals/${id}/${verb}`, {}, approver, from).then((answer) => answer?.status === 200)
    const options = { cwd: folder, env: { ...process.env, COLLET_KEY: masterKey } }
    const flags = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning', CLI]
    const command = ['approvals', 'reject', id, '--store', `sqlite:${folder}/collet.db`]
    const byCommand = promisify(execFile)(process.execPath, [...flags, ...command], options).then(
      () => true,
      () => false,
    )
    const wins = await Promise.all([
      decide('approve', server),
      decide('reject', other),
      decide('approve', other),
      byCommand,
    ])
    expect(wins.filter((won) => won)).toHaveLength(1)
  })

  it('OWP-71: rejected → kill → stays rejected; a waiting caller in another process sees it', async () => {
    const key = 'rejected'
    await call('OTC', HELD, key)
    const { id } = await newest(key)
    const address = { url: await other.url(), apiKey, limitMs: CRASH_PACE.replyLimitMs }
    const { path, body } = PROTOCOLS.OTC
    const waiting = exchange(address, path, {
      method: 'POST',
      body: JSON.stringify(body(HELD, key)),
      headers: { prefer: 'wait=30' },
    })
    await ask(`/admin/approvals/${id}/reject`, { reason: 'no' }, approver)
    expect((await waiting)?.headers.get('collet-error-code')).toBe('approval_rejected')
    await restart()
    expect((await call('OTC', HELD, key)).code).toBe('approval_rejected')
    expect(effectsOf(key)).toHaveLength(0)
  })

  it('rule 15: the journal is still intact', async () => {
    expect(await checkJournal(`sqlite:${folder}/collet.db`, masterKey, folder)).toMatchObject({ ok: true })
  })
})
