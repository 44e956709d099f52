import { opaquePrincipal } from '#core/opaque-principal'
import type { Denial, DenialFacts } from '#core/ports/audit-store'
import type { Clock } from '#core/ports/clock'
import type { Logger } from '#core/ports/logger'
import type { Store } from '#core/ports/store'
import type { Principal } from '#core/principal'

/** Equal denials within this time are one line with a count, after the first. */
const WINDOW_MS = 60_000
/** Different denials of one principal that a window tells apart; the others are one line. */
const MOST_PER_PRINCIPAL = 20
/** The same of all principals together; the others are counted in the server's log alone. */
const MOST_PER_WINDOW = 200
const EVERYTHING = '*'

/** Writes a refusal to the audit stream. Never throws, never waits. */
export type NoteDenial = (principal: Pick<Principal, 'id' | 'tenant'>, facts: DenialFacts) => void

interface Counted {
  readonly denial: Denial
  count: number
}

export interface DenialLog {
  readonly note: NoteDenial
  /** Writes what is still counted. */
  close(): Promise<void>
}

/**
 * Denials on their way to the store (rule 30a, OWP-62). The first of a kind is written with the next turn of the event
 * loop, its repetitions as one line a minute later: a flood writes at most two lines per kind and 400 a minute in all.
 */
export function createDenialLog(world: {
  readonly store: Pick<Store, 'audit' | 'digest'>
  readonly clock: Clock
  readonly log: Logger
}): DenialLog {
  const { store, clock, log } = world
  let counted = new Map<string, Counted>()
  let perPrincipal = new Map<string, number>()
  const fresh: Denial[] = []
  let dropped = 0
  let windowEnd: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()

  const write = (denials: readonly Denial[]): void => {
    if (denials.length === 0) return
    writing = writing.then(async () => {
      try {
        await store.audit.recordDenials(denials)
      } catch (err) {
        log.error({ err, denials: denials.length }, 'refusals could not be written to the audit stream')
      }
    })
  }

  const writeFresh = (): void => write(fresh.splice(0))

  const endWindow = (): void => {
    clearTimeout(windowEnd)
    windowEnd = undefined
    writeFresh()
    const atMs = clock.nowMs()
    write(
      [...counted.values()]
        .filter(({ count }) => count > 0)
        .map(({ denial, count }) => ({ ...denial, atMs, count })),
    )
    if (dropped > 0) log.warn({ dropped }, 'more refusals than the audit stream takes in a minute')
    counted = new Map()
    perPrincipal = new Map()
    dropped = 0
  }

  const add = (key: string, denial: Denial): void => {
    const known = counted.get(key)
    if (known !== undefined) {
      known.count += 1
      return
    }
    if (counted.size >= MOST_PER_WINDOW) {
      dropped += 1
      return
    }
    counted.set(key, { denial, count: 0 })
    if (fresh.push(denial) === 1) setImmediate(writeFresh)
    windowEnd ??= setTimeout(endWindow, WINDOW_MS).unref()
  }

  return {
    note(principal, facts) {
      const who = opaquePrincipal(store, principal)
      const denial = { atMs: clock.nowMs(), tenant: principal.tenant, principal: who, ...facts, count: 1 }
      const key = JSON.stringify([who, facts.action, facts.resource, facts.reason])
      if (counted.has(key)) return add(key, denial)
      const kinds = (perPrincipal.get(who) ?? 0) + 1
      if (kinds > MOST_PER_PRINCIPAL) return add(who, { ...denial, action: EVERYTHING, resource: EVERYTHING })
      perPrincipal.set(who, kinds)
      add(key, denial)
    },
    async close() {
      endWindow()
      await writing
    },
  }
}
