import type { SessionChanged } from '#core/journal/events'
import type { NewSession, SessionAddress, SessionRecord } from '#core/ports/store'
import type { SessionOutcome } from '#core/runs/events'
import type { MemoryRuns } from './memory-runs.ts'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

interface Session extends Mutable<SessionRecord> {
  closedAtMs: number | undefined
  readonly endsRun: boolean
}

/** The memory store's sessions; each change gives the event that goes to the journal. */
export class MemorySessions {
  readonly #sessions = new Map<string, Session>()
  readonly #runs: MemoryRuns
  readonly #writer: string

  constructor(runs: MemoryRuns, writer: string) {
    this.#runs = runs
    this.#writer = writer
  }

  find({ tenant, sessionId }: SessionAddress): SessionRecord | undefined {
    const found = this.#sessions.get(sessionId)
    if (found?.tenant !== tenant) return undefined
    const { closedAtMs: _closedAtMs, endsRun: _endsRun, ...record } = found
    return record
  }

  open(session: NewSession, state: 'open' | 'closing'): SessionChanged {
    const { tenant, sessionId, principal, tool, toolId, place, atMs } = session
    const { run } = place
    this.#sessions.set(sessionId, {
      tenant,
      sessionId,
      principal,
      tool,
      toolId,
      run,
      state,
      writer: this.#writer,
      outcome: undefined,
      closedAtMs: undefined,
      endsRun: session.endsRun === true,
    })
    const position = this.#runs.append(run, { type: 'session.opened', sessionId, toolId }, atMs)
    return { type: 'session.opened', at: atMs, session: sessionId, tenant, principal, tool, ...position }
  }

  beginClose({ tenant, sessionId }: SessionAddress): boolean {
    const found = this.#sessions.get(sessionId)
    if (found?.tenant !== tenant || found.state !== 'open') return false
    found.state = 'closing'
    return true
  }

  /** `undefined` when it was closed already. */
  close(address: SessionAddress, outcome: SessionOutcome, atMs: number): SessionChanged | undefined {
    const { tenant, sessionId } = address
    const found = this.#sessions.get(sessionId)
    if (found?.tenant !== tenant || found.state === 'closed') return undefined
    found.state = 'closed'
    found.outcome = outcome
    found.closedAtMs = atMs
    const { principal, tool, toolId, run } = found
    const position = this.#runs.append(run, { type: 'session.closed', sessionId, toolId, outcome }, atMs)
    const ids = { session: sessionId, tenant, principal, tool }
    return { type: 'session.closed', at: atMs, ...ids, ...position, outcome }
  }

  /** The run that ends with this session. */
  ownRunOf(sessionId: string): string | undefined {
    const found = this.#sessions.get(sessionId)
    return found?.endsRun === true ? found.run : undefined
  }

  /** Gives how many were forgotten. */
  purge(beforeMs: number): number {
    const before = this.#sessions.size
    for (const [id, { closedAtMs }] of this.#sessions) {
      if (closedAtMs !== undefined && closedAtMs < beforeMs) this.#sessions.delete(id)
    }
    return before - this.#sessions.size
  }
}
