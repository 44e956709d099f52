/**
 * Attaches receipts to a server: makes blocks of the journal in the background, and serves the public keys to everyone. `start-server.ts`
 * lists this part. Work in the background takes a small, fixed share of the time while calls are made, and catches up when none are.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ServerHost } from '#server/host'
import { jsonReply, OPEN_ROUTE } from '#server/http/exchange'
import type { ServerPart } from '#server/part'
import { listKeys } from './receipt-routes.ts'

const KEYS_PATH = '/.well-known/collet-receipt-keys.json'

/** How often new groups are put into blocks. */
const EVERY_MS = 30_000
/** While calls are made, the pause after a step is this many times as long as the step. */
const BUSY_PAUSE = 100
const IDLE_PAUSE = 10
/** Share of the time that the process works, above which it counts as busy. */
const BUSY = 0.3
const WORK = 'journal blocks'

export function openReceiptPart({ services, clock, log }: ServerHost): ServerPart {
  const { store } = services.gateway
  const ended = new AbortController()
  const work = run()

  async function run(): Promise<void> {
    while (!ended.signal.aborted) {
      await sleep(EVERY_MS, undefined, { signal: ended.signal, ref: false }).catch(() => undefined)
      if (ended.signal.aborted) return
      try {
        if (await store.takeTurn(WORK, EVERY_MS)) await catchUp()
      } catch (error) {
        log.error(
          { err: error },
          'the journal was not put into blocks, so no receipts can be made of its newest calls',
        )
      }
    }
  }

  async function catchUp(): Promise<void> {
    let pause = BUSY_PAUSE
    while (!ended.signal.aborted) {
      const startedMs = performance.now()
      if (!(await store.blocks.makeSome(clock.nowMs()))) return
      const stepMs = performance.now() - startedMs
      const before = performance.eventLoopUtilization()
      await sleep(stepMs * pause, undefined, { signal: ended.signal, ref: false }).catch(() => undefined)
      const { utilization } = performance.eventLoopUtilization(before)
      pause = utilization > BUSY ? BUSY_PAUSE : IDLE_PAUSE
    }
  }

  return {
    routes: [
      {
        ...OPEN_ROUTE,
        method: 'GET',
        path: KEYS_PATH,
        handle: async () =>
          jsonReply(
            200,
            { keys: await listKeys(store) },
            { 'cache-control': 'public, max-age=60', 'access-control-allow-origin': '*' },
          ),
      },
    ],
    async close() {
      ended.abort()
      await work
    },
  }
}
