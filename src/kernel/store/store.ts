import { StoreError } from '#kernel/base/errors'
import type { SessionAddress } from '#kernel/call/call-record'
import type { JournalPosition } from '#kernel/journal/events'
import type { SessionOutcome } from '#kernel/run/events'
import { endParkedIn } from '#kernel/store/calls/approval-changes'
import { openApprovals } from '#kernel/store/calls/approvals'
import { openCalls } from '#kernel/store/calls/calls'
import { openRecovery } from '#kernel/store/calls/recovery'
import {
  beginSessionClose,
  closeSession,
  findSession,
  holdsSession,
  openRuns,
  openSession,
} from '#kernel/store/calls/runs'
import { CommitQueue } from './commit-queue.ts'
import {
  type CommitGroup,
  type Engine,
  type NotifyChange,
  NUL_REFUSED,
  type Steps,
  type StoreContext,
  write,
} from './engine.ts'
import { type Chain, journalChains, openGroups, readJournal } from './journal.ts'
import type { StoreDefinition } from './module.ts'
import type { RowGuard } from './row-mac.ts'
import { openReloads } from './rows.ts'
import type { SchemaMode } from './schema.ts'

/**
 * The kernel's store, built from an engine, a commit queue and the modules of calls, runs, approvals and
 * the journal. Every engine's `open` ends here. Every change is durable before it is acknowledged, and many share one commit.
 */

/** Sorts after every record: a writer's last change is the last of its group. */
const LAST_KEY = '~'
/** Sorts after every record too: a session closes after the calls that end in the same group (OWP-41). */
const CLOSE_KEY = '|'
/** How long a check waits for another process that is writing. */
const MAX_LOCK_MS = 5_000

export interface StoreParts {
  readonly definition: StoreDefinition
  readonly engine: Engine
  readonly chain: Chain
  readonly guard: RowGuard
  readonly nowMs: () => number
  /** Whether several processes serve from it together. */
  readonly isShared: boolean
}

/** How a database is opened as a store, on every engine. */
export interface StoreOptions {
  readonly masterKey: Uint8Array
  /** The previous key, while it is being changed. */
  readonly oldMasterKey?: Uint8Array | undefined
  /** Default: the tables are created, or brought up to date. */
  readonly schema?: SchemaMode | undefined
  readonly nowMs?: () => number
  /** Host and process, for operators. */
  readonly place?: string | undefined
  /** Called once for each guarded row that was changed without the key. */
  readonly onForeign?: ((row: string, table: string) => void) | undefined
  /** Called after each commit with the number of changes and the duration. */
  readonly onCommit?: ((changes: number, durationMs: number) => void) | undefined
}

/** `openModules` adds the methods of the modules outside of the kernel. */
export function createStore<Modules extends object>(
  parts: StoreParts,
  openModules: (context: StoreContext) => Modules,
): KernelStore & Modules {
  const queue = new CommitQueue(parts.engine)
  const context = openContext(parts, queue)
  return Object.assign(openKernelStore(parts, queue, context), openModules(context))
}

/** A method that changes something resolves after the change and its journal events are durable, or rejects with a `StoreError`. */
export interface KernelStore extends ReturnType<typeof openKernelStore> {}

function openContext({ definition, engine, chain, guard }: StoreParts, queue: CommitQueue): StoreContext {
  const { keys } = chain
  return {
    definition,
    engine,
    chain,
    keys,
    sealed: openGroups(keys),
    guard,
    careful:
      (keyOf, change) =>
      (first, ...rest) =>
        holdsNul(first) || rest.some((each) => holdsNul(each))
          ? Promise.reject(new StoreError('not_written', NUL_REFUSED))
          : queue.submit(keyOf(first), (group) => change(group, first, ...rest)),
    lane:
      (keyOf, laneOf, change) =>
      (first, ...rest) =>
        queue.submit(keyOf(first), (group) => change(group, first, ...rest), laneOf(first)),
    read:
      (steps) =>
      (...args) =>
        engine.read(steps(...args)),
    snapshot:
      (steps) =>
      (...args) =>
        engine.snapshot(steps(...args)),
  }
}

function openKernelStore(
  { engine, chain, nowMs, isShared }: StoreParts,
  queue: CommitQueue,
  context: StoreContext,
) {
  const { keys, snapshot } = context
  let closing: Promise<void> | undefined
  return {
    /** Changes that wait for their commit, and reads that wait for a remote database. */
    get pendingWrites() {
      return queue.size + engine.waitingReads
    },
    /** Whether several processes serve from it: they then share rates and forward calls to each other. */
    isShared,
    /** This process's writer, named in every claim (rule 17). */
    get writer() {
      return chain.id
    },
    /** Keyed one-way digest: equal texts have equal digests, which reveal nothing without the key. */
    digest: (plain: string) => keys.digest(plain),
    /** HMAC under a key of this store, different for each purpose. */
    sign: (purpose: string, signed: string) => keys.sign(purpose, signed),
    ...openCalls(context),
    ...openRuns(context),
    ...openSessions(context),
    ...openRecovery(context),
    /** Calls that wait for approval (rules 20 to 23). */
    approvals: openApprovals(context),
    /** Groups in commit order after the given position of each chain. */
    readJournal: snapshot((after: readonly JournalPosition[], limit: number) =>
      readJournal(keys, after, limit),
    ),
    journalChains: snapshot(journalChains),
    reloads: openReloads(context),
    takeTurn: (work: string, everyMs: number) => engine.takeTurn(work, everyMs),
    /** Reports changes of other processes until it is ended. It may report too much, and late. */
    watch: (notify: NotifyChange) => engine.watch(notify),
    obstacle: () => engine.obstacle(),
    mayStart: (writer: string) => engine.mayStart(writer),
    /** Rejects while writes do not work. It writes a row, because an empty transaction would not touch the disk. */
    probe: async () => {
      await queue.submit('', () => write('writeMeta', 'probe', String(nowMs())))
    },
    /** Throws when a change could not be written; unlike `probe` it writes nothing, not even to the journal. */
    checkWritable: (waitMs = MAX_LOCK_MS) => engine.checkWritable(waitMs),
    close: () => {
      closing ??= close(queue, chain, engine)
      return closing
    },
  }
}

/**
 * PostgreSQL cannot store NUL in a text and SQLite can, so no store accepts it. Code that takes text from people refuses it
 * earlier; texts of calls are checked where they arrive.
 */
function holdsNul(value: unknown, depth = 3): boolean {
  if (typeof value === 'string') return value.includes('\0')
  if (depth === 0 || typeof value !== 'object' || value === null || value instanceof Uint8Array) return false
  return Object.values(value).some((member) => holdsNul(member, depth - 1))
}

/** Sessions of stateful tools: their brackets in the run they belong to (rule 30). The state itself is never stored. */
function openSessions({ careful, read }: StoreContext) {
  const order = ({ sessionId }: SessionAddress) => sessionId
  return {
    findSession: read(findSession),
    openSession: careful(order, openSession),
    /** `open → closing`; `false` when another process closes or closed it. */
    beginSessionClose: careful(order, beginSessionClose),
    /**
     * `closing → closed` with its event, and the end of a run made for it, in one transaction; `false` when it is closed already,
     * and for the session of another writer: recovery closes those of dead ones.
     */
    closeSession: careful(({ sessionId }) => `${CLOSE_KEY}${sessionId}`, endSession),
  }
}

/**
 * Closes a session together with the calls parked in it, which can no longer continue. A session of an earlier writer of this
 * process is left to recovery, which first ends the calls that were running in it (OWP-41).
 */
function* endSession(
  group: CommitGroup,
  address: SessionAddress,
  outcome: SessionOutcome,
  atMs: number,
): Steps<boolean> {
  if (!(yield* holdsSession(group, address))) return false
  yield* endParkedIn(group, address, { why: 'session', atMs })
  return yield* closeSession(group, address, outcome, atMs)
}

async function close(queue: CommitQueue, chain: Chain, engine: Engine): Promise<void> {
  const stopped = chain.isStarted ? queue.submit(LAST_KEY, (group) => chain.recordStop(group)) : undefined
  queue.close()
  try {
    await stopped
  } finally {
    await engine.close()
  }
}
