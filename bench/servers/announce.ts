import { setImmediate } from 'node:timers/promises'

const COLLECTIONS = 4

/** What the parent may ask over the channel between them. */
export type Question = 'cpu' | 'memory' | 'credential'

/** Tells the parent where the server listens and what it costs; ends when the parent says so or is gone. */
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

/** After collections that find nothing more: what one frees may be what only the next can reach. */
async function reachableMemory(): Promise<NodeJS.MemoryUsage> {
  if (globalThis.gc === undefined) throw new Error('Start the server with --expose-gc.')
  for (let time = 0; time < COLLECTIONS; time += 1) {
    globalThis.gc()
    await setImmediate()
  }
  return process.memoryUsage()
}
