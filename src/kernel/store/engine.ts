import type { MaybePromise } from '#kernel/base/waiting'
import type { JournalEvent } from '#kernel/journal/events'
import type { NoticeSubject } from '#kernel/journal/notices'
import type { Chain } from './journal.ts'
import type { QueryName } from './kernel-modules.ts'
import type { KeyRing } from './key-ring.ts'
import type { StoreDefinition } from './module.ts'
import type { RowGuard } from './row-mac.ts'
import type { SealedText, Slice } from './rows.ts'

/**
 * The interface to a database, and steps: changes and reads as generators of statements, so that the same logic runs on SQLite
 * and PostgreSQL. The modules of this folder are written as steps; engines drive them.
 * The engine checks guarded rows against their MACs as it reads them (`RowGuard`).
 */

export interface Engine {
  /** Each statement sees the data that is committed when it runs. */
  read<T>(steps: Steps<T>): MaybePromise<T>
  /** All statements see the same state. */
  snapshot<T>(steps: Steps<T>): MaybePromise<T>
  /** A snapshot for steps that take long: calls are served between two statements, and `signal` aborts it. */
  walk<T>(steps: Steps<T>, signal: AbortSignal): Promise<T>
  /**
   * Applies all changes in one transaction and makes them durable, or throws and applies none. `busy` if another process
   * holds the write lock: waiting for the lock here would block the event loop.
   */
  commit(changes: readonly PendingChange[]): MaybePromise<'committed' | 'busy'>
  /**
   * Why no run may start now, as text for an operator: other processes may soon consider this one dead, or its clock is wrong
   * (rule 18). `undefined` if a run may start.
   */
  obstacle(): string | undefined
  /** Whether a call that this writer has claimed may still be started (rule 18). */
  mayStart(writer: string): boolean
  /**
   * Whether a writer may still end the calls that it claimed (rule 17). Also renews the liveness marker of this process's writer.
   */
  isAlive(writer: string): MaybePromise<boolean>
  /** Removes the liveness marker of a dead writer that has nothing left to recover. */
  forgetWriter(writer: string): MaybePromise<void>
  readonly waitingReads: number
  /**
   * Whether it is this process's turn to do work that one process does for all, once per interval. Turns depend on time, not
   * on a lock: if a process stops during its turn, another process does the work in the next interval.
   */
  takeTurn(work: string, everyMs: number): MaybePromise<boolean>
  /** Reports commits by other processes, not this process's own, until the watcher is ended. */
  watch(notify: NotifyChange): StoreWatcher
  /**
   * For a journal that is partitioned by time: creates the next partition before it is needed and drops partitions past
   * retention; returns how many groups were dropped. Groups outside of partitions are deleted one by one.
   */
  maintainPartitions?(nowMs: number, keptMs: number): Promise<number>
  /** Throws if a change could not be written now; writes nothing. */
  checkWritable(waitMs: number): MaybePromise<void>
  close(): MaybePromise<void>
}

/** Called with the names of the runs and calls that another process changed, or with `undefined` if they are unknown. */
export type NotifyChange = (names: readonly string[] | undefined) => void

export interface StoreWatcher {
  /** Requests notifications about this run or call for some seconds; a waiter repeats the request. */
  want(name: string): void
  end(): void
}

/** One change waiting for its commit. Its steps may be started twice: once in a group that failed, and once alone. */
export interface PendingChange<Result = unknown> {
  /** Changes of one group are applied in the order of their keys. */
  readonly key: string
  /**
   * A lane is a queue of changes that must run one after the other, usually the changes to one run. Changes in different lanes
   * may interleave. `undefined` for an exclusive change, which reads before it writes: no change by any process may run between
   * its steps.
   */
  readonly lane: string | undefined
  begin(group: CommitGroup): Steps<Result>
  /** Called by the engine with the result of the steps, which is passed to the caller after the commit. */
  keep(result: Result): void
}

/** Passed to each module: the parts of the store, and functions that turn the module's steps into methods. */
export interface StoreContext {
  readonly definition: StoreDefinition
  readonly engine: Engine
  readonly chain: Chain
  readonly keys: KeyRing
  readonly sealed: SealedText
  readonly guard: RowGuard
  /** Makes a method of an exclusive change, which reads before it writes. No change by any process runs between its steps. */
  exclusive<First, Rest extends unknown[], Result>(
    keyOf: (first: NoInfer<First>) => string,
    change: (group: CommitGroup, first: First, ...rest: Rest) => Steps<Result>,
  ): (first: First, ...rest: Rest) => Promise<Result>
  /** Makes a method of a change whose statements are each conditional; only changes in the same lane wait for each other. */
  lane<First, Rest extends unknown[], Result>(
    keyOf: (first: NoInfer<First>) => string,
    laneOf: (first: NoInfer<First>) => string,
    change: (group: CommitGroup, first: First, ...rest: Rest) => Steps<Result>,
  ): (first: First, ...rest: Rest) => Promise<Result>
  read<Args extends unknown[], Result>(
    steps: (...args: Args) => Steps<Result>,
  ): (...args: Args) => MaybePromise<Result>
  /** Makes a method of a read whose statements all see the same state. */
  readonly snapshot: StoreContext['read']
}

/** When the subject of a notice happened, and what identifies it: one notice is stored per kind and `about`. */
export interface Occasion {
  readonly about: string
  readonly atMs: number
  /** After this time an equal notice may be stored again. */
  readonly untilMs?: number
}

/** Stores notices for operators as part of a change; set by the module that delivers them. */
export type Notify = (subject: NoticeSubject, occasion: Occasion) => Steps<void>

/** The commit that is being assembled: its events, and the texts that are sealed together (rule 14). */
export class CommitGroup {
  readonly id: number
  /** Number of the writer that commits this group. */
  readonly writer: number
  readonly keys: KeyRing
  readonly #notify: Notify
  readonly #events: JournalEvent[] = []
  readonly #texts: string[] = []
  readonly #callers = new Segment()
  readonly #payload = new Segment()
  #live = 0

  constructor(parts: Pick<CommitGroup, 'id' | 'writer' | 'keys'> & { readonly notify: Notify }) {
    this.id = parts.id
    this.writer = parts.writer
    this.keys = parts.keys
    this.#notify = parts.notify
  }

  /** Stores a notice for operators with this commit, for each webhook that subscribes to it. */
  notify(subject: NoticeSubject, occasion: Occasion): Steps<void> {
    return this.#notify(subject, occasion)
  }

  get isEmpty(): boolean {
    return this.#events.length === 0
  }

  get events(): readonly JournalEvent[] {
    return this.#events
  }

  get eventsJson(): string {
    return `[${this.#texts.join(',')}]`
  }

  get callers(): string {
    return this.#callers.text
  }

  get payload(): string {
    return this.#payload.text
  }

  /** Number of calls that refer to this group's payload. */
  get live(): number {
    return this.#live
  }

  append(event: JournalEvent): void {
    this.#events.push(event)
    this.#texts.push(JSON.stringify(event))
  }

  /** Adds a caller's text: call id, trace id, user id. It is kept as long as the journal. */
  addCaller(text: string): Slice {
    return this.#callers.add(this.id, text)
  }

  /** Adds an input or an outcome. It is kept as long as results. */
  addPayload(text: string): Slice {
    return this.#payload.add(this.id, text)
  }

  /** Called once per call that refers to this group's payload. */
  addReference(): void {
    this.#live += 1
  }
}

class Segment {
  readonly #parts: string[] = []
  #bytes = 0

  get text(): string {
    return this.#parts.join('')
  }

  add(group: number, text: string): Slice {
    const length = Buffer.byteLength(text)
    const slice = { group, at: this.#bytes, length }
    this.#parts.push(text)
    this.#bytes += length
    return slice
  }
}

/** A row as the driver returns it. */
export type Row = Readonly<Record<string, unknown>>

export type SqlValue = string | number | null | Uint8Array

/** One statement that a change or a read yields; the engine sets its answer. */
export type StatementRequest = Get | All | Write

/**
 * A change or a read, one statement at a time: a generator that reads like ordinary code, `const row = yield* get('findCall',
 * record)`. The engine decides whether an answer is immediate or a round trip, so the same logic runs on every engine. Steps
 * must be driven with `yield*`, `drive` or a method of an engine; a bare call does nothing (test/store/steps-driven.test.ts
 * finds such calls).
 */
export type Steps<Result> = Iterable<StatementRequest, Result, void>

const ANY = {
  /** The first row, if there is one. */
  get: (query: string, ...values: SqlValue[]) => new Get(query, values),
  all: (query: string, ...values: SqlValue[]) => new All(query, values),
  /** The answer is the number of changed rows. */
  write: (query: string, ...values: SqlValue[]) => new Write(query, values),
}

type Statements<Name> = {
  readonly [Kind in keyof typeof ANY]: (query: Name, ...values: SqlValue[]) => ReturnType<(typeof ANY)[Kind]>
}

export const { get, all, write }: Statements<QueryName> = ANY

/** `get`, `all` and `write` for a module outside of the kernel; the compiler checks the names of its statements. */
export function statements<Name extends string>(): Statements<Name | QueryName> {
  return ANY
}

const LIST_LENGTH = 50

/**
 * Placeholders for a list in a statement, `IN (${LIST})`: an exclusive change to many rows must not need a round trip per row,
 * because every process waits for the change.
 */
export const LIST = Array(LIST_LENGTH).fill('?').join(', ')

/** Splits values into lists of equal length; the last list is padded with null, which matches no row. */
export function listsOf<Value extends string | number>(values: readonly Value[]): (Value | null)[][] {
  return Array.from({ length: Math.ceil(values.length / LIST_LENGTH) }, (_, nth) =>
    Array.from({ length: LIST_LENGTH }, (_, at) => values[nth * LIST_LENGTH + at] ?? null),
  )
}

/** PostgreSQL cannot store NUL in a text. */
export const NUL_REFUSED = 'a text contains NUL (U+0000), which cannot be stored. Remove that character'

/** Steps whose result is already known. */
export function answered<Result>(value: Result): Steps<Result> {
  return { [Symbol.iterator]: () => ({ next: () => ({ done: true, value }) }) }
}

/** Runs steps to their end synchronously; `answer` sets the answer of each statement. */
export function drive<Result>(steps: Steps<Result>, answer: (request: StatementRequest) => void): Result {
  const iterator = steps[Symbol.iterator]()
  let step = iterator.next()
  while (step.done !== true) {
    answer(step.value)
    step = iterator.next()
  }
  return step.value
}

/**
 * A statement is its own steps: the first `next` passes it to the driver, the second returns the answer. A generator would cost
 * every statement one more object.
 */
abstract class Statement<Answer> {
  abstract answer: Answer
  readonly query: string
  readonly values: SqlValue[]
  #isAsked = false

  constructor(query: string, values: SqlValue[]) {
    this.query = query
    this.values = values
  }

  [Symbol.iterator](): this {
    return this
  }

  next(): IteratorResult<this, Answer> {
    if (this.#isAsked) return { done: true, value: this.answer }
    this.#isAsked = true
    return { done: false, value: this }
  }
}

class Get extends Statement<Row | undefined> {
  readonly kind = 'get'
  answer: Row | undefined = undefined
}

class All extends Statement<readonly Row[]> {
  readonly kind = 'all'
  answer: readonly Row[] = []
}

class Write extends Statement<number> {
  readonly kind = 'write'
  answer = 0
}
