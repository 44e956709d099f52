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
 * The kernel's store, built from an engine, a commit queue and the modules for calls, runs, approvals and the journal. Each
 * engine is opened first and then passed to `createStore`. Every change is durable before it is acknowledged; many share a commit.
 */

/** Sorts after every record, so that a writer's last change is also the last in its group. */
const LAST_KEY = '~'
/** Sorts after every record, so that a session closes after the calls that end in the same group (OWP-41). */
const CLOSE_KEY = '|'
/** How long a check waits for another process that is writing. */
const MAX_LOCK_MS = 5_000

export interface StoreParts {
  readonly definition: StoreDefinition
  readonly engine: Engine
  readonly chain: Chain
  readonly guard: RowGuard
  readonly nowMs: () => number
  /** Whether several processes serve calls from this store. */
  readonly isShared: boolean
}

/** Options for opening a store, the same for every engine. */
export interface StoreOptions {
  readonly masterKey: Uint8Array
  /** The previous key, while the key is being changed. */
  readonly oldMasterKey?: Uint8Array | undefined
  /** What to do with the tables; default: create them, or migrate them to the current version. */
  readonly schema?: SchemaMode | undefined
  readonly nowMs?: () => number
  /** Host and process id, shown to operators. */
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

/** Methods that change data resolve after the change and its journal events are durable, or reject with a `StoreError`. */
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
    exclusive:
      (keyOf, change) =>
      (first, ...rest) =>
        containsNul(first) || rest.some((each) => containsNul(each))
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
    /** Number of changes that wait for their commit and of reads that wait for a remote database. */
    get pendingWrites() {
      return queue.size + engine.waitingReads
    },
    /** Whether several processes serve calls from this store; they then share rates and forward calls to each other. */
    isShared,
    /** This process's writer, named in every claim (rule 17). */
    get writer() {
      return chain.id
    },
    /** Keyed one-way digest: equal texts have equal digests, and a digest reveals nothing without the key. */
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
    /** Reports changes by other processes until the watcher is ended. Reports may be late or unnecessary. */
    watch: (notify: NotifyChange) => engine.watch(notify),
    obstacle: () => engine.obstacle(),
    mayStart: (writer: string) => engine.mayStart(writer),
    /** Rejects while writes fail. It writes a row, because an empty transaction would not write to the disk. */
    probe: async () => {
      await queue.submit('', () => write('writeMeta', 'probe', String(nowMs())))
    },
    /** Throws if a change could not be written; unlike `probe`, it writes nothing. */
    checkWritable: (waitMs = MAX_LOCK_MS) => engine.checkWritable(waitMs),
    close: () => {
      closing ??= close(queue, chain, engine)
      return closing
    },
  }
}

/**
 * PostgreSQL cannot store NUL in a text and SQLite can, so no store accepts it. Code that takes text from people refuses it
 * earlier; callers' texts are checked where they arrive.
 */
function containsNul(value: unknown, depth = 3): boolean {
  if (typeof value === 'string') return value.includes('\0')
  if (depth === 0 || typeof value !== 'object' || value === null || value instanceof Uint8Array) return false
  return Object.values(value).some((member) => containsNul(member, depth - 1))
}

/** Sessions of stateful tools, with the events that open and close them in their run (rule 30). Their state is never stored. */
function openSessions({ exclusive, read }: StoreContext) {
  const order = ({ sessionId }: SessionAddress) => sessionId
  return {
    findSession: read(findSession),
    openSession: exclusive(order, openSession),
    /** `open → closing`; `false` if another process is closing the session or has closed it. */
    beginSessionClose: exclusive(order, beginSessionClose),
    /**
     * `closing → closed` with its event, and the end of a run made for the session, in one transaction; `false` if the session is
     * already closed or belongs to another writer. Recovery closes the sessions of dead writers.
     */
    closeSession: exclusive(({ sessionId }) => `${CLOSE_KEY}${sessionId}`, endSession),
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
