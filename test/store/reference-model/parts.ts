import type { ChallengeNeed, ChallengeRecord, NewChallenge } from '#kernel/call/stages'
import type { ChallengeChanged, JournalEvent, JournalGroup, JournalPosition } from '#kernel/journal/events'
import type { BudgetWindow, Spending } from '#kernel/journal/notices'
import { grantOf, NOTHING, perUnit } from '#stages/limits/budgets'
import { challengeKey } from '#store/consents'
import { BUDGETS_KEPT_MS } from '#store/limits'

/** One group per event, without links. */
export class ReferenceJournal {
  readonly #writer: string
  readonly #groups: JournalGroup[] = []
  #last = -1

  constructor(writer: string) {
    this.#writer = writer
  }

  readonly append = (event: JournalEvent): void => {
    this.#last += 1
    this.#groups.push({ writer: this.#writer, group: this.#last, link: '', atMs: event.at, events: [event] })
  }

  read(after: readonly JournalPosition[], limit: number): readonly JournalGroup[] {
    const next = (after.find(({ writer }) => writer === this.#writer)?.group ?? -1) + 1
    const first = this.#groups[0]?.group ?? 0
    const start = Math.max(0, next - first)
    return this.#groups.slice(start, start + limit)
  }

  forget(beforeMs: number): void {
    const kept = this.#groups.findIndex(({ atMs }) => atMs >= beforeMs)
    this.#groups.splice(0, kept === -1 ? this.#groups.length : kept)
  }
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** At most one challenge is open per need (rule 22). */
export class ReferenceChallenges {
  readonly #byId = new Map<string, Mutable<ChallengeRecord>>()
  readonly #openByNeed = new Map<string, string>()
  readonly #append: (event: ChallengeChanged) => void

  constructor(append: (event: ChallengeChanged) => void) {
    this.#append = append
  }

  open(challenge: NewChallenge): ChallengeRecord {
    const key = challengeKey(challenge)
    const open = this.#byId.get(this.#openByNeed.get(key) ?? '')
    if (open?.status === 'pending') {
      if (open.expiresAtMs > challenge.atMs) return { ...open }
      open.status = 'failed'
    }
    this.#byId.set(challenge.id, { ...challenge, status: 'pending' })
    this.#openByNeed.set(key, challenge.id)
    const { id, tenant, principal, provider, atMs } = challenge
    this.#append({ type: 'challenge.opened', at: atMs, challenge: id, tenant, principal, provider })
    return { ...challenge, status: 'pending' }
  }

  find(id: string): ChallengeRecord | undefined {
    const found = this.#byId.get(id)
    return found === undefined ? undefined : { ...found }
  }

  end(need: ChallengeNeed, as: 'completed' | 'failed', atMs: number): void {
    const found = this.#byId.get(this.#openByNeed.get(challengeKey(need)) ?? '')
    if (found?.status !== 'pending') return
    found.status = as
    const { id, tenant, principal, provider } = found
    this.#append({ type: `challenge.${as}`, at: atMs, challenge: id, tenant, principal, provider })
  }

  forget(beforeMs: number): void {
    for (const [id, challenge] of this.#byId) {
      if (challenge.expiresAtMs >= beforeMs) continue
      this.#byId.delete(id)
      const key = challengeKey(challenge)
      if (this.#openByNeed.get(key) === id) this.#openByNeed.delete(key)
    }
  }
}

interface Handed {
  readonly endsAtMs: number
  used: Spending
}

export class ReferenceBudgets {
  readonly #windows = new Map<string, Handed>()

  lease(window: BudgetWindow, wanted: Spending, limit: Spending): Spending {
    const handed = this.#handed(window)
    const granted = grantOf(wanted, limit, handed.used)
    handed.used = perUnit((unit) => handed.used[unit] + granted[unit])
    return granted
  }

  returnUnspent(window: BudgetWindow, unspent: Spending): void {
    const handed = this.#handed(window)
    handed.used = perUnit((unit) => Math.max(0, handed.used[unit] - unspent[unit]))
  }

  read(window: BudgetWindow): Spending {
    return this.#windows.get(windowKey(window))?.used ?? NOTHING
  }

  forget(nowMs: number): void {
    for (const [key, { endsAtMs }] of this.#windows) {
      if (endsAtMs < nowMs - BUDGETS_KEPT_MS) this.#windows.delete(key)
    }
  }

  #handed(window: BudgetWindow): Handed {
    const key = windowKey(window)
    const known = this.#windows.get(key)
    if (known !== undefined) return known
    const handed = { endsAtMs: window.startMs + window.lengthMs, used: NOTHING }
    this.#windows.set(key, handed)
    return handed
  }
}

function windowKey({ tenant, principal, lengthMs, startMs }: BudgetWindow): string {
  return JSON.stringify([tenant, principal ?? null, lengthMs, startMs])
}
