import fc from 'fast-check'
import { expect, it } from 'vitest'
import { useDatabase } from './databases.ts'
import { step } from './model-step.ts'
import { Subject } from './model-subject.ts'
import { ReferenceStore } from './reference-model/reference-store.ts'

/** Raise for a longer search; each is a fresh pair of stores and up to `MAX_LENGTH` steps. */
const ROUNDS = 25
const MAX_LENGTH = 40
const LIMIT_MS = 300_000

const database = useDatabase('model')

it('a store in PostgreSQL behaves like the reference model for random histories', {
  timeout: LIMIT_MS,
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: MAX_LENGTH, size: 'max' }), async (steps) => {
      const clock = { nowMs: 1_000 }
      const store = await database.open({ nowMs: () => clock.nowMs })
      const [reference, subject] = [new Subject(new ReferenceStore(), clock), new Subject(store, clock)]
      try {
        for (const taken of steps) {
          if (taken.do === 'wait') clock.nowMs += taken.ms
          const expected = await reference.apply(taken)
          expect({ taken, gave: await subject.apply(taken) }).toEqual({ taken, gave: expected })
          expect({ taken, state: await subject.state() }).toEqual({ taken, state: await reference.state() })
        }
        expect(await store.verify()).toMatchObject({ ok: true })
      } finally {
        await store.close()
        await database.empty()
      }
    }),
    { numRuns: ROUNDS },
  )
})
