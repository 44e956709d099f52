import { StoreError } from '#kernel/base/errors'
import type { JournalPosition } from '#kernel/journal/events'
import type { KernelStore, SessionAddress, SessionStore } from '#kernel/ports/store'
import type { SessionOutcome } from '#kernel/run/events'
import { endParkedIn } from '#kernel/store/calls/approval-changes'
import { sqlApprovals } from '#kernel/store/calls/approvals'
import { sqlCalls } from '#kernel/store/calls/calls'
import { sqlRecovery } from '#kernel/store/calls/recovery'
import {
  beginSessionClose,
  closeSession,
  findSession,
  holdsSession,
  openSession,
  sqlRuns,
} from '#kernel/store/calls/runs'
import type { Chain } from './chain.ts'
import { CommitQueue } from './commit-queue.ts'
import { type CommitGroup, type Engine, NUL_REFUSED, type Steps, type StoreContext, write } from './engine.ts'
import { journalChains, openGroups, readJournal } from './journal.ts'
import type { StoreDefinition } from './module.ts'
import type { RowGuard } from './row-mac.ts'
import { sqlReloads } from './rows.ts'

/**
 * The store: the kernel's port (`KernelStore`) built from an engine, a commit queue and the modules of calls, runs, approvals and
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

/** `openModules` adds the methods of the modules outside of the kernel. */
export function createStore<Modules extends object>(
  parts: StoreParts,
  openModules: (context: StoreContext) => Modules,
): KernelStore & Modules {
  const { definition, engine, chain, guard, nowMs, isShared } = parts
  const { keys } = chain
  const queue = new CommitQueue(engine)
  const sealed = openGroups(keys)
  const context: StoreContext = {
    ...{ definition, engine, chain },
    keys,
    sealed,
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
  const { snapshot } = context
  let closing: Promise<void> | undefined
  const kernel: KernelStore = {
    get pendingWrites() {
      return queue.size + engine.waitingReads
    },
    isShared,
    get writer() {
      return chain.id
    },
    digest: (plain) => keys.digest(plain),
    ...sqlCalls(context),
    ...sqlRuns(context),
    ...sqlSessions(context),
    ...sqlRecovery(context),
    approvals: sqlApprovals(context),
    readJournal: snapshot((after: readonly JournalPosition[], limit: number) =>
      readJournal(keys, after, limit),
    ),
    journalChains: snapshot(journalChains),
    reloads: sqlReloads(context),
    takeTurn: (work, everyMs) => engine.takeTurn(work, everyMs),
    watch: (notify) => engine.watch(notify),
    obstacle: () => engine.obstacle(),
    mayStart: (writer) => engine.mayStart(writer),
    /** Writes a row, because an empty transaction would not touch the disk. */
    probe: async () => {
      await queue.submit('', () => write('writeMeta', 'probe', String(nowMs())))
    },
    checkWritable: (waitMs = MAX_LOCK_MS) => engine.checkWritable(waitMs),
    close: () => {
      closing ??= close({ queue, chain, engine })
      return closing
    },
  }
  return Object.assign(kernel, openModules(context))
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

function sqlSessions({ careful, read }: StoreContext): SessionStore {
  const order = ({ sessionId }: SessionAddress) => sessionId
  return {
    findSession: read(findSession),
    openSession: careful(order, openSession),
    beginSessionClose: careful(order, beginSessionClose),
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

async function close({
  queue,
  chain,
  engine,
}: {
  readonly queue: CommitQueue
  readonly chain: Chain
  readonly engine: Engine
}): Promise<void> {
  const stopped = chain.isStarted ? queue.submit(LAST_KEY, (group) => chain.recordStop(group)) : undefined
  queue.close()
  try {
    await stopped
  } finally {
    await engine.close()
  }
}
