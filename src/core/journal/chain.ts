import { createHmac, type KeyObject } from 'node:crypto'
import type { RetentionPolicy, Store } from '#core/ports/store'
import type { Clock, Logger } from '#core/runtime'

const ROUND_MS = 60_000
const PAUSE_BETWEEN_STEPS_MS = 20

/** Forgets what retention allows, a small step at a time, in the background (rule 13). */
export function startRetention(
  store: Store,
  policy: RetentionPolicy,
  world: { readonly clock: Clock; readonly log: Logger },
): { stop(): void } {
  let timer: NodeJS.Timeout | undefined
  let stopped = false
  const next = (delayMs: number): void => {
    if (stopped) return
    timer = setTimeout(step, delayMs)
    timer.unref()
  }
  const step = async (): Promise<void> => {
    try {
      const more = await store.purge(world.clock.nowMs(), policy)
      next(more ? PAUSE_BETWEEN_STEPS_MS : ROUND_MS)
    } catch (error) {
      world.log.error({ err: error }, 'retention failed; it goes on later')
      next(ROUND_MS)
    }
  }
  next(ROUND_MS)
  return {
    stop() {
      stopped = true
      clearTimeout(timer)
    },
  }
}

/** What one link of the chain covers: everything of a group that stays as long as the journal. */
interface LinkedGroup {
  /** Number of the group in the whole store: what call rows point to. */
  readonly id: number
  readonly writer: string
  readonly group: number
  readonly atMs: number
  /** The events as the exact text that is stored. */
  readonly eventsJson: string
  /** Sealed caller text, or nothing. */
  readonly callers: Uint8Array | null
}

/** Rule 15: one HMAC per commit group, over the group and the link before it. */
export function linkOf(chainKey: KeyObject, previous: string, group: LinkedGroup): string {
  const hmac = createHmac('sha256', chainKey)
  hmac.update(JSON.stringify([previous, group.id, group.writer, group.group, group.atMs, group.eventsJson]))
  if (group.callers !== null) hmac.update(group.callers)
  return hmac.digest('base64url')
}

/** What retention leaves behind in place of the groups it removed. */
export function checkpointSignature(
  chainKey: KeyObject,
  checkpoint: { readonly writer: string; readonly group: number; readonly link: string },
): string {
  const { writer, group, link } = checkpoint
  return createHmac('sha256', chainKey)
    .update(JSON.stringify(['checkpoint', writer, group, link]))
    .digest('base64url')
}

/** The link before a chain's first group. */
export const CHAIN_START = ''
