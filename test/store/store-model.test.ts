import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { RunEvent } from '#kernel/run/events'
import { openCountChange } from '#kernel/run/events'
import type { Store } from '#store/collet-store'
import { openSqliteStore } from '#store/sqlite/sqlite-store'
import { DAY_MS, POLICY, success } from '../contracts/samples.ts'
import { RUN_KEYS, step } from './model-step.ts'
import { Subject } from './model-subject.ts'
import { ReferenceStore } from './reference-model/reference-store.ts'

/** Raise for a longer search; each run is a fresh pair of stores and up to `MAX_LENGTH` steps. */
const ROUNDS = 100
const MAX_LENGTH = 40
const LIMIT_MS = 120_000

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-model-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

it('the SQLite store behaves like the reference model for random histories', {
  timeout: LIMIT_MS,
}, async () => {
  const masterKey = randomBytes(32)
  let file = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: MAX_LENGTH, size: 'max' }), async (steps) => {
      file += 1
      const clock = { nowMs: 1_000 }
      const sqlite = openSqliteStore({
        path: join(folder, `${file}.db`),
        masterKey,
        nowMs: () => clock.nowMs,
      })
      const [reference, subject] = [new Subject(new ReferenceStore(), clock), new Subject(sqlite, clock)]
      try {
        for (const taken of steps) {
          if (taken.do === 'wait') clock.nowMs += taken.ms
          const expected = await reference.apply(taken)
          expect({ taken, gave: await subject.apply(taken) }).toEqual({ taken, gave: expected })
          expect({ taken, state: await subject.state() }).toEqual({ taken, state: await reference.state() })
        }
        expect(sqlite.verify()).toMatchObject({ ok: true })
        await expectAllForgotten(sqlite, subject, clock)
      } finally {
        await sqlite.close()
      }
    }),
    { numRuns: ROUNDS },
  )
})

it('OWP-41, OWP-50: after any history of a dead writer, recovery ends each call and each session once', {
  timeout: LIMIT_MS,
}, async () => {
  const masterKey = randomBytes(32)
  let file = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: MAX_LENGTH, size: 'max' }), async (steps) => {
      file += 1
      const clock = { nowMs: 1_000 }
      const path = join(folder, `${file}.db`)
      const dead = openSqliteStore({ path, masterKey, nowMs: () => clock.nowMs })
      const subject = new Subject(dead, clock)
      for (const taken of steps) {
        if (taken.do === 'wait') clock.nowMs += taken.ms
        await subject.apply(taken)
      }
      await dead.close()
      const [left, right] = [openSqliteStore({ path, masterKey }), openSqliteStore({ path, masterKey })]
      try {
        await Promise.all([left, right].map((store) => store.recover(clock.nowMs)))
        for (const run of RUN_KEYS) {
          expectPairs(await left.readRun({ tenant: 'default', run }, -1, 1_000))
          expect((await left.findRun({ tenant: 'default', run }))?.open ?? 0).toBe(0)
        }
        expect(left.list({ states: ['running'], limit: 10 })).toEqual({ calls: [] })
        expect(left.verify()).toMatchObject({ ok: true })
      } finally {
        await Promise.all([left.close(), right.close()])
      }
    }),
    { numRuns: ROUNDS / 4 },
  )
})

function sessionOf(event: RunEvent): string {
  return 'sessionId' in event ? (event.sessionId ?? '') : ''
}

/** Sequences count from 0, and everything that begins in a run ends there exactly once, later. */
function expectPairs(events: readonly RunEvent[]): void {
  const begun = new Set<string>()
  for (const [index, event] of events.entries()) {
    expect(event.sequence).toBe(index)
    const begins = openCountChange(event) === 1
    if (openCountChange(event) === 0) continue
    const name = 'attempt' in event ? `${event.record} ${event.attempt}` : sessionOf(event)
    expect({ name, begins, isOpen: begun.has(name) }).toEqual({ name, begins, isOpen: !begins })
    if (begins) begun.add(name)
    else begun.delete(name)
  }
  expect([...begun]).toEqual([])
}

/** Rule 13: once everything has ended and expired, only the record of the last purge is left. */
async function expectAllForgotten(sqlite: Store, subject: Subject, clock: { nowMs: number }): Promise<void> {
  for (const { record, attempt } of (await sqlite.list({ states: ['running'], limit: 100 })).calls) {
    const run = subject.attempt(record, attempt)
    await sqlite.finish({ run, state: 'succeeded', outcome: success('1'), atMs: clock.nowMs })
  }
  for (const sessionId of await subject.openSessions()) {
    await sqlite.closeSession({ tenant: 'default', sessionId }, 'completed', clock.nowMs)
  }
  for (let round = 0; round < 3; round += 1) {
    clock.nowMs += 200 * DAY_MS
    await sqlite.purge(clock.nowMs, POLICY)
  }
  expect(sqlite.list({ limit: 100 })).toEqual({ calls: [] })
  for (const run of RUN_KEYS) {
    expect(sqlite.findRun({ tenant: 'default', run })).toBeUndefined()
    expect(sqlite.readRun({ tenant: 'default', run }, -1, 10)).toEqual([])
  }
  const left = (await sqlite.readJournal([], 1_000)).flatMap(({ events }) => events.map(({ type }) => type))
  expect(left.filter((type) => type !== 'retention.purged')).toEqual([])
  expect(sqlite.verify()).toMatchObject({ ok: true })
}
