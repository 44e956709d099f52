import { setTimeout as pause } from 'node:timers/promises'
import type { Logger } from '#core/runtime'
import type { Connection } from './connection.ts'

const FIRST_PAUSE_MS = 1000
const LONGEST_PAUSE_MS = 60_000
const ACKNOWLEDGED_MS = 10_000

/** 2026-07-28 tells of changes only on a stream that was asked for; it is asked for again whenever it ends. */
export async function listenForChanges(
  connection: Connection,
  { log, signal, onMissed }: { readonly log: Logger; readonly signal: AbortSignal; onMissed(): void },
): Promise<void> {
  let pauseMs = FIRST_PAUSE_MS
  let isAgain = false
  while (connection.isOpen && !signal.aborted) {
    try {
      const subscription = await connection.client.listen(
        { toolsListChanged: true },
        { timeout: ACKNOWLEDGED_MS },
      )
      pauseMs = FIRST_PAUSE_MS
      // What changed between two streams was told to nobody.
      if (isAgain) onMissed()
      isAgain = true
      await subscription.closed
    } catch (error) {
      log.debug({ err: error }, 'The MCP server does not take our subscription')
      pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)
    }
    await pause(pauseMs, undefined, { signal, ref: false }).catch(() => undefined)
  }
}
