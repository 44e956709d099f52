import { setTimeout as wait } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { attemptAt, sampleCall, success } from '../../../test/contracts/samples.ts'

const CALLS = 1_500
const MB = 1_048_576

it('caches opened groups by their size, without the buffer pools of their bytes', async () => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const store = openMemoryStore({})
  const calls = Array.from({ length: CALLS }, (_, index) => sampleCall({ record: `r${index}` }))
  for (const call of calls) {
    await store.claim(call)
    await store.finish({ run: attemptAt(call, 1), state: 'succeeded', outcome: success('1'), atMs: 2_000 })
  }
  collect()
  const before = process.memoryUsage().arrayBuffers
  for (const call of calls) {
    await store.find(call)
    // Other work of a server between two reads.
    Buffer.allocUnsafe(3_000)
  }
  // V8 frees buffers after its collection, so memory is measured several times: only cached groups remain.
  const grown = async (): Promise<number> => {
    collect()
    await wait(20)
    return process.memoryUsage().arrayBuffers - before
  }
  await expect.poll(grown, { timeout: 5_000 }).toBeLessThan(2 * MB)
  await store.close()
})
