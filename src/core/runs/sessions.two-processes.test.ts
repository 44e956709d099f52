import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { sampleTool } from '#testing/samples'
import { ALICE, callRequest, gist, openTestGateway } from '#testing/test-gateway'

const counter = sampleTool('Counter.Next@1.0.0', () => 1, {
  session: { open: () => ({}), close: () => {}, idleMs: 60_000 },
})

it('rule 30: a session of another process is told so, and closes when its run is ended from here', async () => {
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
