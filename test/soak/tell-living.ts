import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Loaded into the watched server (`node --import`). Told so, it collects all garbage and says what is left. */
setFlagsFromString('--expose-gc')
const collect: unknown = runInNewContext('gc')

process.on('SIGUSR2', () => {
  if (typeof collect !== 'function') return
  // What the first one freed of buffers is counted by the second.
  for (const _ of [1, 2]) collect()
  const { heapUsed, external } = process.memoryUsage()
  process.stderr.write(`living ${heapUsed} ${external}\n`)
})
