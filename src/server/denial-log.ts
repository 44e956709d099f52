import type { Denial, DenialFacts } from '#core/ports/key-store'
import type { Store } from '#core/ports/store'
import { opaquePrincipal, type Principal } from '#core/principal'
import type { Clock, Logger } from '#core/runtime'

/** Equal denials within this time are one line with a count, after the first. */
const WINDOW_MS = 60_000
/** Different denials of one principal that a window tells apart; the others are one line. */
const MOST_PER_PRINCIPAL = 20
/** The same of all principals together; the others are counted in the server's log alone. */
const MOST_PER_WINDOW = 200
const EVERYTHING = '*'
/** How long after a refusal it is written. */
const TICK_MS = 1_000
/** Noted between two ticks. */
const MOST_NOTED = 10_000

type Refused = Pick<Principal, 'id' | 'tenant'>

/**
 * Writes a refusal to the audit stream. Never throws, never waits. Facts may be found later: `undefined` then means that nothing was
 * refused, because there is nothing of that name. It costs the same, so that nobody learns by time what is hidden (OWP-22).
 */
export type NoteDenial = (principal: Refused, facts: DenialFacts | (() => DenialFacts | undefined)) => void

interface Noted {
  readonly principal: Refused
  readonly facts: DenialFacts | (() => DenialFacts | undefined)
  readonly atMs: number
}

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
 * Denials on their way to the store (rule 30a, OWP-62). The first of a kind is written at once, its repetitions as one line a
 * minute later: a flood writes at most two lines per kind and 400 a minute in all. Where nobody may learn whether there was
 * anything to refuse, it is looked at a second later, on a tick that always commits: whatever a caller asked for in vain,
 * hidden or not there at all, costs the same at the same time.
 */
export function createDenialLog(world: {
  readonly store: Pick<Store, 'audit' | 'digest'>
  readonly clock: Clock
  readonly log: Logger
}): DenialLog {
  const { store, clock, log } = world
  let noted: Noted[] = []
  const fresh: Denial[] = []
  let counted = new Map<string, Counted>()
  let perPrincipal = new Map<string, number>()
  let dropped = 0
  let tick: NodeJS.Timeout | undefined
  let windowEnd: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()

  const write = (denials: readonly Denial[]): void => {
    writing = writing.then(async () => {
      try {
        await store.audit.recordDenials(denials)
      } catch (err) {
        log.error({ err, denials: denials.length }, 'refusals could not be written to the audit stream')
      }
    })
  }

  /** The line to write now, if it is the first of its kind. */
  const count = (key: string, denial: Denial): readonly Denial[] => {
    const known = counted.get(key)
    if (known !== undefined) {
      known.count += 1
      return []
    }
    if (counted.size >= MOST_PER_WINDOW) {
      dropped += 1
      return []
    }
    counted.set(key, { denial, count: 0 })
    return [denial]
  }

  const read = ({ principal, facts, atMs }: Noted): readonly Denial[] => {
    const found = typeof facts === 'function' ? facts() : facts
    if (found === undefined) return []
    const who = opaquePrincipal(store, principal)
    const denial = { atMs, tenant: principal.tenant, principal: who, ...found, count: 1 }
    const key = JSON.stringify([who, found.action, found.resource, found.reason])
    if (counted.has(key)) return count(key, denial)
    const kinds = (perPrincipal.get(who) ?? 0) + 1
    if (kinds > MOST_PER_PRINCIPAL) return count(who, { ...denial, action: EVERYTHING, resource: EVERYTHING })
    perPrincipal.set(who, kinds)
    return count(key, denial)
  }

  const takeNoted = (): readonly Denial[] => {
    clearTimeout(tick)
    tick = undefined
    const taken = noted
    noted = []
    return taken.flatMap(read)
  }

  /** Gives the lines of the window that ends. */
  const endWindow = (): readonly Denial[] => {
    clearTimeout(windowEnd)
    windowEnd = undefined
    const found = [...fresh.splice(0), ...takeNoted()]
    const atMs = clock.nowMs()
    const repeated = [...counted.values()]
      .filter((each) => each.count > 0)
      .map((each) => ({ ...each.denial, atMs, count: each.count }))
    if (dropped > 0) log.warn({ dropped }, 'more refusals than the audit stream takes in a minute')
    counted = new Map()
    perPrincipal = new Map()
    dropped = 0
    return [...found, ...repeated]
  }

  return {
    note(principal, facts) {
      windowEnd ??= setTimeout(() => write(endWindow()), WINDOW_MS).unref()
      if (typeof facts === 'object') {
        const lines = read({ principal, facts, atMs: clock.nowMs() })
        if (fresh.push(...lines) === 1) setImmediate(() => write(fresh.splice(0)))
        return
      }
      if (noted.length >= MOST_NOTED) dropped += 1
      else noted.push({ principal, facts, atMs: clock.nowMs() })
      tick ??= setTimeout(() => write(takeNoted()), TICK_MS).unref()
    },
    async close() {
      const last = endWindow()
      if (last.length > 0) write(last)
      await writing
    },
  }
}
