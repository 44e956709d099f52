import { StoreError } from '#kernel/base/errors'
import type {
  Attempt,
  CallRecord,
  CallSession,
  ClaimResult,
  NewCall,
  RunScope,
} from '#kernel/call/call-record'
import type { NewChallenge } from '#kernel/call/stages'
import type { JournalEvent, JournalHead } from '#kernel/journal/events'
import type { BudgetWindow, Spending } from '#kernel/journal/notices'
import {
  attemptAt,
  DAY_MS,
  failure,
  POLICY,
  sampleCall,
  sampleRefusal,
  sampleSession,
  scopeAt,
} from '../contracts/samples.ts'
import { RECORDS, RUN_KEYS, type Step, type Where } from './model-step.ts'
import { shown, shownEvents } from './model-view.ts'
import type { ModelledStore } from './reference-model/reference-store.ts'

/** Run and session of a call, as its last claimer saw them. */
interface Held {
  readonly scope: RunScope | undefined
  readonly session: CallSession | undefined
}

/** One store under test, with the state that its caller keeps. */
export class Subject {
  readonly store: ModelledStore
  readonly #clock: { nowMs: number }
  readonly #seen: CallRecord[] = []
  readonly #challenges: string[] = []
  readonly #held = new Map<string, Held>()
  /** When a record was first written, each time its key was free. */
  readonly #lives = new Map<string, number[]>()
  /** Newest first. */
  readonly #named: string[] = []
  readonly #runOfSession = new Map<string, string>()
  readonly #sessions: string[] = []
  #heads: readonly JournalHead[] = []
  #purgedAtMs = 0

  constructor(store: ModelledStore, clock: { nowMs: number }) {
    this.store = store
    this.#clock = clock
  }

  /** The result of the step, or the code of its refusal. */
  async apply(taken: Step): Promise<unknown> {
    try {
      return shown(await this.#act(taken))
    } catch (error) {
      if (error instanceof StoreError) return { refused: error.code }
      throw error
    }
  }

  /** The complete content of the store, and the events since the last read. */
  async state(): Promise<unknown> {
    const { store } = this
    return {
      calls: shown((await store.list({ limit: 100 })).calls),
      byRecord: shown(await Promise.all(RECORDS.map((name) => store.findByRecord(name)))),
      cancelRequests: (await store.cancelRequests()).map((address) => address.record).sort(),
      challenges: await Promise.all(this.#challenges.map((id) => store.findChallenge(id))),
      runs: await Promise.all(RUN_KEYS.map((run) => store.findRun({ tenant: 'default', run }))),
      runEvents: await Promise.all(RUN_KEYS.map((run) => this.#readRun(run, -1, 1_000))),
      sessions: shown(
        await Promise.all(
          this.#sessions.map((sessionId) => store.findSession({ tenant: 'default', sessionId })),
        ),
      ),
      events: shown(await this.#newEvents()),
    }
  }

  /** The attempt of the last claimer of a call. */
  attempt(record: string, attempt: number): Attempt {
    return attemptAt(this.#call(record, this.#held.get(record)), attempt)
  }

  /** Sessions that are not closed. */
  async openSessions(): Promise<readonly string[]> {
    const found = await Promise.all(
      this.#sessions.map((sessionId) => this.store.findSession({ tenant: 'default', sessionId })),
    )
    return found.flatMap((session) =>
      session === undefined || session.state === 'closed' ? [] : [session.sessionId],
    )
  }

  async #act(taken: Step): Promise<unknown> {
    const { store } = this
    const atMs = this.#clock.nowMs
    switch (taken.do) {
      case 'claim': {
        const { record, tier, replay, where } = taken
        return await this.#claim(this.#call(record, this.#scopeOf(where), { tier, replay }))
      }
      case 'claim twice at once':
        return await Promise.all(
          ['one', 'two'].map((fingerprint) =>
            this.#claim(this.#call(taken.record, undefined, { fingerprint })),
          ),
        )
      case 'claim all at once':
        return await Promise.all(
          RECORDS.map((record) => this.#claim(this.#call(record, this.#scopeOf(taken.where)))),
        )
      case 'insertFinished': {
        const call = this.#call(taken.record, undefined, { tier: taken.tier })
        const result = await store.insertFinished(call, { ...taken.end, atMs })
        if (result.kind === 'recorded') this.#hold(call)
        return result
      }
      case 'finish':
        return await store.finish({ run: this.attempt(taken.record, taken.attempt), ...taken.end, atMs })
      case 'finish twice at once': {
        const run = this.attempt(taken.record, taken.attempt)
        return await Promise.all([
          store.finish({ run, ...taken.end, atMs }),
          store.finish({ run, state: 'failed', outcome: failure(false), atMs }),
        ])
      }
      case 'recordLate':
        return await store.recordLate(this.attempt(taken.record, taken.attempt), taken.outcome, atMs)
      case 'look': {
        const found = await store.find({ tenant: 'default', record: taken.record })
        if (found !== undefined) this.#seen.unshift(found)
        return found
      }
      case 'reclaim':
        return await this.#reclaim(this.#seen[taken.age])
      case 'requestCancel':
        return await store.requestCancel({ tenant: taken.tenant, record: taken.record }, 'key:alice', atMs)
      case 'settle': {
        const { record, as } = taken
        const why = { valueJson: undefined, error: undefined, who: 'op', why: 'test' }
        return await store.settle({ record, as, ...why, atMs })
      }
      case 'openSession': {
        const sessionId = this.#newSession()
        this.#named.unshift(sessionId)
        this.#runOfSession.set(sessionId, taken.run)
        return await store.openSession(sampleSession(sessionId, { scope: scopeAt(taken.run), atMs }))
      }
      case 'beginSessionClose':
        return await store.beginSessionClose({
          tenant: taken.tenant,
          sessionId: this.#named[taken.age] ?? '',
        })
      case 'closeSession': {
        const address = { tenant: taken.tenant, sessionId: this.#named[taken.age] ?? '' }
        return await store.closeSession(address, taken.outcome, atMs)
      }
      case 'endRun':
        return await store.endRun({ tenant: taken.tenant, run: scopeAt(taken.run).run }, atMs)
      case 'noteRefusal': {
        const record = 'refused'
        this.#lives.set(record, [atMs, ...(this.#lives.get(record) ?? [])])
        const scope = { ...scopeAt(taken.run), tenant: taken.tenant }
        return await store.noteRefusal(sampleRefusal({ record, scope, atMs }))
      }
      case 'lease':
        return await store.budgets.lease(
          this.#window(taken.tenant),
          spending(taken.calls),
          spending(8),
          1_000,
        )
      case 'returnUnspent': {
        await store.budgets.returnUnspent(this.#window(taken.tenant), spending(taken.calls))
        return await store.budgets.read(this.#window(taken.tenant))
      }
      case 'readRun':
        return await this.#readRun(taken.run, taken.after, taken.limit)
      case 'openChallenge': {
        const id = `challenge-${this.#challenges.length}`
        this.#challenges.unshift(id)
        return await store.openChallenge(challengeOf(id, taken, atMs))
      }
      case 'completeChallenge':
        return await store.endChallenge(challengeOf('', { ...taken, lifetimeMs: 0 }, atMs), 'completed', atMs)
      case 'list': {
        const { state, tenant, limit } = taken
        const { calls } = await store.list({
          limit,
          ...(state === undefined ? {} : { state }),
          ...(tenant === undefined ? {} : { tenant }),
        })
        return calls
      }
      case 'purge':
        // A purged record was last read a day ago, and no process keeps a record that long.
        this.#seen.length = 0
        this.#purgedAtMs = atMs
        return await store.purge(atMs, POLICY)
      case 'wait':
        return undefined
    }
  }

  /** A window of half a day, so that waits reach the next window and purges delete some windows. */
  #window(tenant: string): BudgetWindow {
    const lengthMs = DAY_MS / 2
    return {
      tenant,
      principal: undefined,
      lengthMs,
      startMs: Math.floor(this.#clock.nowMs / lengthMs) * lengthMs,
    }
  }

  async #claim(call: NewCall): Promise<ClaimResult> {
    const result = await this.store.claim(call)
    if (result.kind === 'claimed') this.#hold(call)
    return result
  }

  #hold(call: NewCall): void {
    this.#held.set(call.record, call)
    this.#lives.set(call.record, [call.atMs, ...(this.#lives.get(call.record) ?? [])])
  }

  /** Like the pipeline: a call that ran in its own session gets a new one, and a call in a named session stays there. */
  async #reclaim(seen: CallRecord | undefined): Promise<unknown> {
    if (seen === undefined) return 'nothing seen'
    const { record, sessionId } = seen
    const session = sessionId === undefined ? undefined : this.#nextSession(sessionId)
    const result = await this.store.reclaim(seen, { session, atMs: this.#clock.nowMs })
    if (result.kind === 'claimed') this.#held.set(record, { scope: this.#held.get(record)?.scope, session })
    return result
  }

  #nextSession(sessionId: string): CallSession {
    if (this.#named.includes(sessionId)) return { sessionId, isOwn: false }
    return { sessionId: this.#newSession(), isOwn: true }
  }

  #newSession(): string {
    const sessionId = `ses_${this.#sessions.length}`
    this.#sessions.push(sessionId)
    return sessionId
  }

  #scopeOf({ run, session }: Where): Held {
    const named = typeof session === 'number' ? this.#named[session] : undefined
    if (named !== undefined) {
      const scope = scopeAt(this.#runOfSession.get(named) ?? '')
      return { scope, session: { sessionId: named, isOwn: false } }
    }
    const scope = run === undefined ? undefined : scopeAt(run)
    return {
      scope,
      session: session === 'own' ? { sessionId: this.#newSession(), isOwn: true } : undefined,
    }
  }

  #call(record: string, held: Held | undefined, changes: Partial<NewCall> = {}): NewCall {
    return sampleCall({
      record,
      callId: `id of ${record} ✓`,
      fingerprint: 'one',
      atMs: this.#clock.nowMs,
      scope: held?.scope,
      session: held?.session,
      ...changes,
    })
  }

  /** The label of a call may be gone from a run that is kept longer than the journal. */
  async #readRun(run: string, after: number, limit: number): Promise<unknown> {
    const events = await this.store.readRun({ tenant: 'default', run }, after, limit)
    return shownEvents(events, (record, atMs) => {
      const bornAtMs = this.#lives.get(record)?.find((life) => life <= atMs) ?? 0
      return bornAtMs < this.#purgedAtMs - POLICY.journalMs
    })
  }

  async #newEvents(): Promise<readonly JournalEvent[]> {
    const groups = await this.store.readJournal(this.#heads, 1_000)
    const newest = new Map([...this.#heads, ...groups].map((head) => [head.writer, head]))
    this.#heads = [...newest.values()]
    return groups
      .flatMap(({ events }) => events)
      .filter(({ type }) => !type.startsWith('writer.') && !type.startsWith('retention.'))
  }
}

function spending(calls: number): Spending {
  return { calls, milliseconds: 10 * calls, cost: 0 }
}

function challengeOf(
  id: string,
  { need, lifetimeMs }: { readonly need: string; readonly lifetimeMs: number },
  atMs: number,
): NewChallenge {
  return {
    id,
    tenant: 'default',
    principal: 'key:alice',
    user: '',
    provider: need,
    scopes: [],
    tool: 'Gmail.GetEmails@1.2.0',
    atMs,
    expiresAtMs: atMs + lifetimeMs,
  }
}
