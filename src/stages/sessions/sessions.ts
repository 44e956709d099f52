import { fault, isToolError, StoreError, type ToolError } from '#kernel/base/errors'
import { proveUser } from '#kernel/base/hooks'
import { boundLogger, type Logger } from '#kernel/base/logger'
import { type Principal, userOf } from '#kernel/base/principal'
import { withDeadline } from '#kernel/base/waiting'
import type { RunScope } from '#kernel/call/call-record'
import type {
  LiveSession as LiveSessionPort,
  OpenedSession,
  SessionRequest,
  StageContext,
} from '#kernel/call/stages'
import type { SessionOutcome } from '#kernel/run/events'
import { isRunEnded, namedRun, namedScope, runEnded } from '#kernel/run/runs'
import { closeState, heldElsewhere, sessionEnded, sessionLost } from '#kernel/run/session-ends'
import type { SessionContext, Tool } from '#kernel/tool/tool'
import type { CallLimits } from '#stages/limits/limits'
import type { Store } from '#store/collet-store'

/**
 * Sessions whose state is in this process: opening and closing the state of stateful tools, their timeouts and limits (rule 30).
 * The session stage, forwarding and shutdown use it.
 * Each session is opened once and closed once; recovery closes sessions that a crash left open. A session of an earlier writer of
 * this process is never used again (rule 18).
 */

/** Rule 30: a session is closed at this age, even if it is in use. */
const MAX_AGE_MS = 24 * 3_600_000
const MAX_PER_PRINCIPAL = 100

type Reason = 'asked' | 'idle' | 'too old' | 'shutdown' | 'not opened' | 'lost'

interface SessionsOptions
  extends Pick<StageContext, 'clock' | 'log' | 'registry' | 'hooks' | 'feed' | 'unsaved'> {
  readonly store: Store
  readonly limits: Pick<CallLimits, 'checkTool'>
  /** Address to which other processes forward calls of this process's sessions. */
  address?(): string | undefined
  newSessionId(): string
}

export class Sessions {
  readonly #options: SessionsOptions
  readonly #live = new Map<string, LiveSession>()
  #isClosed = false

  constructor(options: SessionsOptions) {
    this.#options = options
  }

  newId(): string {
    return this.#options.newSessionId()
  }

  async open(principal: Principal, request: SessionRequest): Promise<OpenedSession> {
    const tool = this.#toolFor(principal, request.toolId)
    const { store, clock, feed, log, hooks, limits, unsaved } = this.#options
    await limits.checkTool(principal, tool)
    const isUserProven = await proveUser(hooks, principal, request.userId)
    const sessionId = `ses_${this.newId()}`
    const runId = request.runId ?? `run_${this.newId()}`
    const run =
      request.runId === undefined
        ? namedScope(store, principal, runId)
        : await namedRun(store, principal, runId)
    // Nothing is awaited between this check and `#live.set`, so that simultaneous requests cannot exceed the capacity.
    this.#checkCapacity(principal)
    const session = new LiveSession({
      sessionId,
      writer: store.writer,
      principal,
      claimedUserId: request.userId,
      userId: userOf({ principal, request, isUserProven }),
      tool,
      run,
      log: boundLogger(log, { tool: tool.id, session: sessionId }),
      onExpired: (why) =>
        void this.#closeExpired(session, why).catch((error: unknown) =>
          session.log.error({ err: error }, 'a session could not be closed'),
        ),
    })
    this.#live.set(sessionId, session)
    const { tenant, id } = principal
    try {
      const endsRun = request.runId === undefined
      const ids = { tenant, sessionId, principal: id, tool: tool.id, toolId: tool.catalogId, endsRun }
      const address = this.#options.address?.()
      const opened = await store.openSession({ ...ids, scope: run, address, atMs: clock.nowMs() })
      if (opened === 'run_ended') throw runEnded(runId)
    } catch (error) {
      this.#live.delete(sessionId)
      // The session may exist, but no caller knows its id, so it must not stay open as long as this process lives.
      if (error instanceof StoreError && error.code === 'unknown')
        unsaved.keep(async () => {
          await store.closeSession({ tenant, sessionId }, 'failed', clock.nowMs())
        })
      throw error
    }
    feed.notify(run.run)
    // Rule 18: if this process became another writer while the session was opened, the session accepts no calls.
    if (!this.#isOurs(session)) {
      await this.#close(session, 'lost')
      throw notKept()
    }
    await this.#openState(session)
    return { sessionId, runId }
  }

  find(principal: Principal, userId: string | undefined, sessionId: string): LiveSession | undefined {
    const session = this.#ownedBy(principal, sessionId)
    if (session?.claimedUserId !== userId || !session?.isOpen || session.closing !== undefined)
      return undefined
    return this.#isOurs(session) ? session : undefined
  }

  /** Whether this process has the session's state, for any principal. */
  holds(sessionId: string): boolean {
    const session = this.#live.get(sessionId)
    return session !== undefined && this.#isOurs(session)
  }

  async close(principal: Principal, sessionId: string): Promise<boolean> {
    const session = this.#ownedBy(principal, sessionId)
    if (session !== undefined) {
      await this.#close(session, 'asked')
      return true
    }
    const { kind } = await locateSession(this.#options.store, principal, sessionId)
    if (kind === 'held') throw heldElsewhere()
    return false
  }

  /**
   * Sessions that are closed, unknown or someone else's all get the same error; a session in another process may become reachable.
   */
  async notFound(principal: Principal, sessionId: string): Promise<ToolError> {
    const { kind } = await locateSession(this.#options.store, principal, sessionId)
    if (kind === 'held') return heldElsewhere()
    return kind === 'lost' ? sessionLost() : sessionEnded()
  }

  /** Closes sessions whose run another process has ended, or that were lost because another process declared this one dead. */
  async closeEnded(): Promise<void> {
    const { store, clock } = this.#options
    const lost = [...this.#live.values()].filter((session) => !this.#isOurs(session))
    await Promise.all(lost.map((session) => this.#close(session, 'lost')))
    const runs = new Map([...this.#live.values()].map(({ run }) => [run.run, run]))
    for (const run of runs.values()) {
      const found = await store.findRun(run)
      if (found !== undefined && isRunEnded(found, clock.nowMs())) await this.closeRun(run.run)
    }
  }

  async closeRun(run: string): Promise<void> {
    const sessions = [...this.#live.values()].filter((session) => session.run.run === run)
    await Promise.all(sessions.map((session) => this.#close(session, 'asked')))
  }

  /** Closes all sessions at shutdown, because state does not outlive its process. */
  async closeAll(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#live.values()].map((session) => this.#close(session, 'shutdown')))
  }

  /** Rule 18: if this process lost its lease, other processes have closed its earlier sessions, and their state must not be used. */
  #isOurs({ writer }: LiveSession): boolean {
    return writer === this.#options.store.writer
  }

  #ownedBy({ tenant, id }: Principal, sessionId: string): LiveSession | undefined {
    const session = this.#live.get(sessionId)
    const owner = session?.principal
    return owner?.tenant === tenant && owner.id === id ? session : undefined
  }

  #toolFor(principal: Principal, toolId: string): Tool {
    const tool = this.#options.registry.catalogFor(principal).find(toolId)
    if (tool === undefined) {
      throw fault(
        'tool_not_found',
        'There is no such tool, or you may not see it; GET /v1/tools lists yours.',
      )
    }
    if (tool.session !== undefined) return tool
    throw fault(
      'request_invalid',
      `${tool.catalogId} keeps no state between calls. Call it without a session.`,
    )
  }

  #checkCapacity({ tenant, id }: Principal): void {
    if (this.#isClosed) throw shuttingDown()
    let held = 0
    for (const { principal } of this.#live.values()) {
      if (principal.tenant === tenant && principal.id === id) held += 1
    }
    if (held < MAX_PER_PRINCIPAL) return
    throw fault('rate_limited', `You have ${held} open sessions. Close one before you open another.`, {
      retryAfterMs: 1_000,
      scope: 'key',
    })
  }

  /** The run's events already report the session as open, so any error here closes it. */
  async #openState(session: LiveSession): Promise<void> {
    const { tool, log } = session
    const opening = (async () => await tool.session?.open(session))()
    const release = (state: unknown) => closeState(tool, state, session)
    let state: unknown
    try {
      state = await withDeadline(tool.policy.timeoutMs, () => opening)
    } catch (error) {
      log.error({ err: error }, 'the state of a session could not be opened')
      // State that arrives too late is not used, but it is closed.
      opening.then(release, () => undefined)
      await this.#close(session, 'not opened')
      throw isToolError(error)
        ? error
        : fault('tool_failed', `The state of ${tool.name} could not be opened.`)
    }
    if (session.closing !== undefined) {
      await release(state)
      await session.closing
      if (this.#isClosed) throw shuttingDown()
      throw this.#isOurs(session) ? sessionEnded() : notKept()
    }
    session.begin(state, MAX_AGE_MS)
  }

  /** Rule 30: a call that waits for approval keeps its session, for as long as any session may live. */
  async #closeExpired(session: LiveSession, why: 'idle' | 'too old'): Promise<void> {
    const { sessionId, principal, calls } = session
    const { approvals } = this.#options.store
    if (why === 'too old') await this.#close(session, why)
    else if (await approvals.isParkedIn({ tenant: principal.tenant, sessionId })) session.startIdleTimer()
    else if (calls.size === 0) await this.#close(session, why)
  }

  #close(session: LiveSession, reason: Reason): Promise<void> {
    session.closing ??= this.#closeOnce(session, reason)
    return session.closing
  }

  /** Rule 30: marks the session as `closing`, so that nothing starts; then ends running calls, closes the state and writes the event. */
  async #closeOnce(session: LiveSession, reason: Reason): Promise<void> {
    const { store, clock, feed, unsaved } = this.#options
    const { sessionId, principal, tool, run, log, calls } = session
    const address = { tenant: principal.tenant, sessionId }
    session.stopTimers()
    const outcome = outcomeOf(reason, calls.size > 0)
    try {
      await store.beginSessionClose(address)
    } catch (error) {
      log.warn({ err: error }, 'the closing of a session could not be stored yet')
    }
    const running = [...calls]
    for (const call of running) call.interrupt(reason === 'shutdown' ? 'shutdown' : 'cancel')
    await Promise.all(running.map(({ done }) => done))
    if (session.isOpen) await closeState(tool, session.state, session)
    const write = async (): Promise<void> => {
      await store.closeSession(address, outcome, clock.nowMs())
      feed.notify(run.run)
    }
    try {
      // OWP-41: outcomes of its calls that could not be stored yet are stored before the end of the session.
      if ((await unsaved.flush()) > 0) unsaved.keep(write)
      else await write()
    } catch (error) {
      log.error({ err: error }, 'the end of a session could not be stored yet')
      unsaved.keep(write)
    }
    this.#live.delete(sessionId)
  }
}

/** OWP-44 and C2: idle sessions are completed; interrupted or lost sessions have failed. */
function outcomeOf(reason: Reason, cutsCalls: boolean): SessionOutcome {
  if (reason === 'idle') return 'completed'
  if (reason === 'asked') return cutsCalls ? 'cancelled' : 'completed'
  return 'failed'
}

function shuttingDown(): ToolError {
  return fault('not_ready', 'The server is shutting down.', { retryAfterMs: 2_000 })
}

function notKept(): ToolError {
  return fault(
    'not_ready',
    'The server lost its lease on the store while the session was being opened, so the session was lost. Try again shortly.',
    { retryAfterMs: 1_000 },
  )
}

/** The part of a running call that its session uses to end it. */
interface SessionCall {
  readonly done: Promise<unknown>
  interrupt(why: 'cancel' | 'shutdown'): void
}

class LiveSession implements LiveSessionPort, SessionContext {
  readonly sessionId: string
  /** This process's writer when it opened the session. */
  readonly writer: string
  readonly principal: Principal
  readonly userId: string | undefined
  readonly claimedUserId: string | undefined
  readonly tool: Tool
  readonly run: RunScope
  readonly log: Logger
  readonly calls = new Set<SessionCall>()
  state: unknown
  /** Whether `open` has returned the state. */
  isOpen = false
  closing: Promise<void> | undefined
  readonly #onExpired: (why: 'idle' | 'too old') => void
  #idle: NodeJS.Timeout | undefined
  #age: NodeJS.Timeout | undefined

  constructor(
    parts: Pick<
      LiveSession,
      'sessionId' | 'writer' | 'principal' | 'userId' | 'claimedUserId' | 'tool' | 'run' | 'log'
    > & { readonly onExpired: (why: 'idle' | 'too old') => void },
  ) {
    this.sessionId = parts.sessionId
    this.writer = parts.writer
    this.principal = parts.principal
    this.userId = parts.userId
    this.claimedUserId = parts.claimedUserId
    this.tool = parts.tool
    this.run = parts.run
    this.log = parts.log
    this.#onExpired = parts.onExpired
  }

  /** Starts accepting calls, and starts the timers. */
  begin(state: unknown, maxMs: number): void {
    this.state = state
    this.isOpen = true
    this.#age = setTimeout(() => this.#onExpired('too old'), maxMs).unref()
    this.startIdleTimer()
  }

  enter(call: SessionCall): void {
    this.calls.add(call)
    clearTimeout(this.#idle)
  }

  leave(call: SessionCall): void {
    this.calls.delete(call)
    if (this.calls.size === 0) this.startIdleTimer()
  }

  /** Starts the idle timer. */
  startIdleTimer(): void {
    clearTimeout(this.#idle)
    if (this.closing !== undefined) return
    this.#idle = setTimeout(() => this.#onExpired('idle'), this.tool.session?.idleMs ?? 0).unref()
  }

  stopTimers(): void {
    clearTimeout(this.#idle)
    clearTimeout(this.#age)
  }
}

/** A living process other than this one that holds the state of a session. */
export interface SessionHolder {
  readonly writer: string
  /** Address at which it accepts forwarded calls; `undefined` if it accepts none. */
  readonly address: string | undefined
}

type SessionLocation =
  | { readonly kind: 'held'; readonly holder: SessionHolder }
  /** The session's state was lost with its process. */
  | { readonly kind: 'lost' }
  /** The session is another principal's, closed, in this process, or unknown. */
  | { readonly kind: 'none' }

/** Where the state of one of the principal's sessions is, if this process does not have it. */
export async function locateSession(
  store: Pick<Store, 'findSession' | 'isWriterAlive' | 'writer'>,
  { tenant, id }: Principal,
  sessionId: string,
): Promise<SessionLocation> {
  const found = await store.findSession({ tenant, sessionId })
  if (found?.principal !== id || found.writer === store.writer) return { kind: 'none' }
  const { state, outcome, writer, address } = found
  if (state === 'closed') return { kind: outcome === 'failed' ? 'lost' : 'none' }
  if (!(await store.isWriterAlive(writer))) return { kind: 'lost' }
  return state === 'open' ? { kind: 'held', holder: { writer, address } } : { kind: 'none' }
}
