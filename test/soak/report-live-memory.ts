import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Loaded into the watched server (`node --import`). On request it collects all garbage and reports the live memory. */
setFlagsFromString('--expose-gc')
const collect: unknown = runInNewContext('gc')

process.on('SIGUSR2', () => {
  if (typeof collect !== 'function') return
  // The second collection accounts for the buffers that the first one freed.
  for (const _ of [1, 2]) collect()
  const { heapUsed, external } = process.memoryUsage()
  process.stderr.write(`living ${heapUsed} ${external}\n`)
})
