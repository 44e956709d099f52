import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import type { Store } from '#store/collet-store'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { sampleParking } from '../contracts/approval-store-contract.ts'
import { sampleCall } from '../contracts/samples.ts'
import { KEYS, startApprovalServer } from '../server/approval-stage.ts'
import { FakeIo } from './fake-io.ts'

const masterKey = Buffer.alloc(32, 9)
const environment = readEnvironment({ COLLET_KEY: masterKey.toString('base64') })
const YEAR_MS = 365 * 86_400_000

describe('collet approvals on a real store', () => {
  let folder = ''
  let store: Store

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'collet-approvals-cli-'))
    store = openSqliteStore({ path: join(folder, 'collet.db'), masterKey })
    const expiresAtMs = Date.UTC(2026, 0, 1) + YEAR_MS
    await store.approvals.park(sampleCall(), sampleParking({ expiresAtMs, quorum: 1 }))
  })
  afterEach(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })

  async function run(...argv: string[]) {
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment })
    const code = await io.run('approvals', ...argv, '--store', 'sqlite:collet.db')
    return { code, out: io.stdout, err: io.stderr }
  }

  it('lists pending approvals, and shows one in detail', async () => {
    const { code, out } = await run('list')
    expect([code, out.includes('approval-1'), out.includes('Doorbell.Ring@0.1.0')]).toEqual([0, true, true])
    const shown = await run('show', 'approval-1')
    expect(shown.out).toContain('key:alice')
    expect(shown.out).toContain('doorbell42')
    expect(shown.out).not.toContain('for user')
    expect(JSON.parse((await run('show', 'approval-1', '--json')).out)).toMatchObject({ state: 'pending' })
    expect((await run('show', 'nobody')).code).toBe(2)
  })

  it.each([
    ['claimed', false, 'for user    (claimed, not proven) president\n'],
    ['proven', true, 'for user    president\n'],
  ])('OTC/T-27: marks the user as %s', async (_what, isUserProven, line) => {
    const { subject } = sampleParking().approval
    const named = { ...subject, userId: 'president', isUserProven }
    const parking = sampleParking({ id: 'approval-3', expiresAtMs: Date.UTC(2027, 0, 1), subject: named })
    await store.approvals.park(sampleCall({ record: 'record-3' }), parking)
    expect((await run('show', 'approval-3')).out).toContain(line)
  })

  it('OWP-72: approves once, as the local user', async () => {
    const { code, out, err } = await run('approve', 'approval-1', '--reason', 'asked the customer')
    expect([code, out]).toEqual([0, 'approval-1 is approved. The call runs when its caller repeats it.\n'])
    expect(err).toBe('Acting as cli:tester, directly on the store\n')
    expect(store.approvals.findById('approval-1')).toMatchObject({
      state: 'granted',
      decisions: [{ by: 'cli:tester', action: 'grant', reason: 'asked the customer' }],
    })
    expect((await run('show', 'approval-1')).out).toMatch(/^grant +cli:tester at .*: asked the customer$/m)
    const io = new FakeIo(REAL_SERVICES, { workingFolder: folder, environment })
    await io.run('journal', '--store', 'sqlite:collet.db')
    expect(io.stdout).toMatch(/approval\.granted .*by=cli:tester reason="asked the customer"/)
    const again = await run('approve', 'approval-1')
    expect([again.code, again.err]).toEqual([2, expect.stringContaining('already been decided')])
    expect((await run('list')).err).toContain('No approval matches')
  })

  it('rule 30a: audits a second vote made directly on the store', async () => {
    const parking = sampleParking({ id: 'approval-2', expiresAtMs: Date.UTC(2027, 0, 1), quorum: 2 })
    await store.approvals.park(sampleCall({ record: 'record-2' }), parking)
    for (const _ of [1, 2]) expect((await run('approve', 'approval-2')).code).toBe(0)
    expect((await store.approvals.findById('approval-2'))?.decisions).toHaveLength(1)
    expect(store.audit.readDenials({ after: 0, limit: 10 })).toMatchObject([
      { action: 'approval.decide', reason: 'second_vote', count: 1 },
    ])
  })

  it('rejects a call, and refuses invalid arguments', async () => {
    expect((await run('approve', 'approval-1', '--override')).code).toBe(2)
    expect((await run('approve', 'nobody')).code).toBe(2)
    expect((await run('reject', 'approval-1', '--reason', 'no')).out).toBe('approval-1 is rejected.\n')
    expect((await store.approvals.findById('approval-1'))?.state).toBe('rejected')
    expect((await run('list', '--state', 'rejected', '--json')).out).toContain('"reason":"no"')
  })
})

describe('collet approvals through a server', () => {
  it('acts as the given credential, not as the start token, and prints the identity', async () => {
    const server = await startApprovalServer()
    try {
      const { id } = await server.park('own')
      const folder = server.settings.dataFolder
      const run = async (key: string | undefined, ...argv: string[]) => {
        const env = readEnvironment(key === undefined ? {} : { COLLET_API_KEY: key, COLLET_URL: server.url })
        const io = new FakeIo({ fetch }, { workingFolder: folder, environment: env })
        return { code: await io.run('approvals', ...argv), out: io.stdout, err: io.stderr }
      }
      const store = `sqlite:${join(folder, 'collet.db')}`
      // The caller's own key beside a start token that would open everything: it may not approve its own call.
      const own = await run(KEYS.alice, 'approve', id, '--url', server.url, '--store', store)
      expect([own.code, own.err]).toEqual([
        3,
        expect.stringContaining('Acting as key:alice (COLLET_API_KEY)\n'),
      ])
      // The variable alone chooses who, so it also chooses where.
      const elsewhere = await run(KEYS.mallory, 'approve', id)
      expect([elsewhere.code, elsewhere.err]).toEqual([
        3,
        expect.stringContaining('Acting as key:mallory (COLLET_API_KEY)'),
      ])
      expect((await server.pay('own')).status).toBe(400)
      const boss = await run(KEYS.mallory, 'approve', id, '--url', server.url, '--key', KEYS.bob, '--json')
      expect([boss.code, boss.err]).toEqual([0, 'Acting as key:bob (--key)\n'])
      expect(JSON.parse(boss.out).decisions).toMatchObject([{ by: 'key:bob' }])
      const { id: next } = await server.park('next')
      const token = await run(undefined, 'approve', next, '--url', server.url, '--store', store)
      expect([token.code, token.err]).toEqual([0, 'Acting as operator (start token)\n'])
      // Reading changes nothing, so there is no notice.
      expect((await run(KEYS.bob, 'list', '--url', server.url)).err).not.toContain('Acting as key:')
    } finally {
      await server.close()
    }
  })

  it('sign-in prints an address that signs one browser in, and needs the start token even if a key is set', async () => {
    const server = await startApprovalServer()
    try {
      const { id } = await server.park('sign-in')
      const store = `sqlite:${join(server.settings.dataFolder, 'x.db')}`
      const run = async (...argv: string[]) => {
        const environment = readEnvironment({ COLLET_API_KEY: KEYS.bob })
        const io = new FakeIo({ fetch }, { environment })
        return { code: await io.run('sign-in', ...argv), out: io.stdout, err: io.stderr }
      }
      const made = await run(id, '--url', server.url, '--store', store)
      expect([made.code, made.err]).toEqual([0, ''])
      const entered = await server.ask(made.out.trim())
      expect([entered.status, entered.headers.get('location')]).toEqual([
        303,
        expect.stringMatching(new RegExp(`^/approvals/${id}\\?session=operator\\.`)),
      ])
      const json = await run('--url', server.url, '--store', store, '--json')
      expect(JSON.parse(json.out)).toEqual({ url: expect.stringContaining(`${server.url}/sign-in/`) })
      const elsewhere = await run('--url', 'http://127.0.0.1:1', '--store', store)
      expect([elsewhere.code, elsewhere.err]).toEqual([2, expect.stringContaining('no start token')])
    } finally {
      await server.close()
    }
  })

  it('lists, shows, links and decides with a key that has the scope, and not without it', async () => {
    const server = await startApprovalServer()
    try {
      const { id } = await server.park('cli')
      const run = async (key: string, ...argv: string[]) => {
        const io = new FakeIo({ fetch }, {})
        const code = await io.run('approvals', ...argv, '--url', server.url, '--key', key)
        return { code, out: io.stdout, err: io.stderr }
      }
      expect((await run(KEYS.bob, 'list')).out).toContain(id)
      expect((await run(KEYS.bob, 'show', id)).out).toContain('amount')
      expect((await run(KEYS.bob, 'link', id, '--for', 'carol')).out).toContain(`${server.url}/approve/`)
      expect((await run(KEYS.mallory, 'approve', id)).code).toBe(3)
      expect((await run(KEYS.stranger, 'approve', id)).code).toBe(2)
      expect((await run(KEYS.bob, 'approve', id)).code).toBe(0)
      expect((await server.pay('cli')).json.result.success).toBe(true)
    } finally {
      await server.close()
    }
  })
})
