import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { StoreError } from '#kernel/base/errors'
import type { NewSession } from '#kernel/call/call-record'
import type { Store } from '#store/collet-store'
import { openMemoryStore, openSqliteStore } from '#store/sqlite/sqlite-store'
import { ALICE, callRequest, gist, openTestGateway } from '#testing/test-gateway'
import { sampleTool } from '../../../test/contracts/samples.ts'

const counter = sampleTool('Counter.Next@1.0.0', () => 1, {
  session: { open: () => ({}), close: () => {}, idleMs: 60_000 },
})

it('rule 30: a session of another process is reported as such, and closes when this process ends its run', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'collet-two-'))
  const masterKey = randomBytes(32)
  const gateways = [0, 1].map(() =>
    openTestGateway([counter], { store: openSqliteStore({ path: join(folder, 'c.db'), masterKey }) }),
  )
  const [holder, other] = gateways
  try {
    const opened = await holder?.openSession(ALICE, { toolId: 'openwop:Counter.Next', runId: 'two' })
    const sessionId = opened?.sessionId ?? ''
    await expect(other?.closeSession(ALICE, sessionId)).rejects.toMatchObject({ code: 'not_ready' })
    const call = await other?.call(ALICE, callRequest('Counter.Next', { sessionId }))
    expect(call === undefined ? '' : gist(call)).toBe('not_ready')
    expect(await other?.closeSession({ ...ALICE, id: 'key:bob' }, sessionId)).toBe(false)

    expect(await other?.endRun(ALICE, 'two')).toBe(true)
    const after = { runId: 'two', after: 0, waitMs: 10_000 }
    const page = await other?.readRun(ALICE, after)
    expect(page?.events).toMatchObject([{ type: 'session.closed', outcome: 'completed' }])
    expect(page?.isComplete).toBe(true)
  } finally {
    for (const gateway of gateways) {
      await gateway.drain(0)
      await gateway.store.close()
    }
    rmSync(folder, { recursive: true })
  }
})

it('rule 18: a process that lost its lease closes its earlier state and does not use it', async () => {
  const store = openMemoryStore()
  let writer = store.writer
  const leased: Store = Object.create(store, { writer: { get: () => writer } })
  const close = vi.fn()
  const tool = sampleTool('Counter.Next@1.0.0', () => 1, {
    session: { open: () => ({}), close, idleMs: 60_000 },
  })
  const gateway = openTestGateway([tool], { store: leased })
  try {
    const { sessionId } = await gateway.openSession(ALICE, { toolId: 'openwop:Counter.Next' })
    const call = () => gateway.call(ALICE, callRequest('Counter.Next', { sessionId }))
    expect(gist(await call())).toBe('ok 1')
    writer = 'the next'
    expect(gist(await call())).toBe('not_ready')
    await vi.waitFor(() => expect(close).toHaveBeenCalledOnce(), { timeout: 5_000 })
    const address = { tenant: ALICE.tenant, sessionId }
    const failed = { outcome: 'failed' }
    await vi.waitFor(async () => expect(await store.findSession(address)).toMatchObject(failed))
  } finally {
    await gateway.drain(0)
    await store.close()
  }
})

it('rule 18: a session that opened while its process became another writer is closed, and its caller may retry', async () => {
  const store = openMemoryStore()
  let { writer } = store
  const opened: string[] = []
  const leased: Store = Object.create(store, {
    writer: { get: () => writer },
    openSession: {
      value: async (session: NewSession) => {
        opened.push(session.sessionId)
        const result = await store.openSession(session)
        if (opened.length === 1) writer = 'the next'
        return result
      },
    },
  })
  const gateway = openTestGateway([counter], { store: leased })
  try {
    const open = () => gateway.openSession(ALICE, { toolId: 'openwop:Counter.Next' })
    await expect(open()).rejects.toMatchObject({ code: 'not_ready', retryAfterMs: 1_000 })
    const first = { tenant: ALICE.tenant, sessionId: opened[0] ?? '' }
    expect(await store.findSession(first)).toMatchObject({ state: 'closed', outcome: 'failed' })
    expect(await open()).toMatchObject({ sessionId: opened[1] })
  } finally {
    await gateway.drain(0)
    await store.close()
  }
})

it('rule 30: a session that may have been opened is closed as soon as the store works', async () => {
  const store = openMemoryStore()
  const opened: string[] = []
  const unsure: Store = Object.create(store, {
    openSession: {
      value: async (session: NewSession) => {
        opened.push(session.sessionId)
        await store.openSession(session)
        throw new StoreError('unknown', 'the connection was lost during a commit')
      },
    },
  })
  const gateway = openTestGateway([counter], { store: unsure })
  try {
    const asked = gateway.openSession(ALICE, { toolId: 'openwop:Counter.Next' })
    await expect(asked).rejects.toMatchObject({ code: 'unknown' })
    const address = { tenant: ALICE.tenant, sessionId: opened[0] ?? '' }
    const closed = { state: 'closed', outcome: 'failed' }
    await vi.waitFor(async () => expect(await store.findSession(address)).toMatchObject(closed), {
      timeout: 5_000,
    })
  } finally {
    await gateway.drain(0)
    await store.close()
  }
})
