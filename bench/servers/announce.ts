import { setImmediate } from 'node:timers/promises'

const COLLECTIONS = 4

/** Questions that the parent process may send. */
export type Question = 'cpu' | 'memory' | 'credential'

/** Prints the port for the parent process, answers its questions, and ends when it sends SIGTERM or exits. */
export function announce(port: number, close: () => Promise<void> | void, credential = ''): void {
  const end = async (): Promise<void> => {
    await close()
    process.exit(0)
  }
  process.once('SIGTERM', end)
  process.once('disconnect', end)
  process.on('message', async (question) => {
    if (question === 'credential') process.send?.({ credential })
    else process.send?.(question === 'memory' ? await reachableMemory() : process.cpuUsage())
  })
  process.stdout.write(`ready ${port}\n`)
}

/** Memory after several collections, because objects that one collection frees may keep others reachable until the next. */
async function reachableMemory(): Promise<NodeJS.MemoryUsage> {
  if (globalThis.gc === undefined) throw new Error('Start the server with --expose-gc.')
  for (let time = 0; time < COLLECTIONS; time += 1) {
    globalThis.gc()
    await setImmediate()
  }
  return process.memoryUsage()
}
