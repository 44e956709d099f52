import type { MaybePromise } from '#kernel/base/waiting'
import type { JournalEvent } from '#kernel/journal/events'
import type { NoticeSubject } from '#kernel/ports/notice-store'
import type { StoreWatcher, TellChange } from '#kernel/ports/store'
import type { Chain } from './chain.ts'
import type { QueryName } from './kernel-modules.ts'
import type { KeyRing } from './key-ring.ts'
import type { StoreDefinition } from './module.ts'
import type { RowGuard } from './row-mac.ts'
import type { SealedText, Slice } from './rows.ts'

/**
 * What a database must offer. Everything else about the store is written once, as steps, in the modules of this folder.
 * Rows that decide are checked against their MACs by the engine, as they come in (`RowGuard`).
 */
export interface Engine {
  /** Steps by themselves: each statement sees what is committed by the time it runs. */
  read<T>(steps: Steps<T>): MaybePromise<T>
  /** Steps that all see the same moment. */
  snapshot<T>(steps: Steps<T>): MaybePromise<T>
  /** The same for steps that take long: calls have their turn between two statements, and `signal` ends it. */
  walk<T>(steps: Steps<T>, signal: AbortSignal): Promise<T>
  /**
   * Applies all changes in one transaction and makes them durable, or throws and leaves nothing. `busy` when another
   * process holds the write lock: waiting for it here would block the event loop.
   */
  commit(changes: readonly PendingChange[]): MaybePromise<'committed' | 'busy'>
  /**
   * Why no run may start now, in words for an operator: others may soon take us for dead, or our clock is wrong (rule 18).
   * `undefined` when one may.
   */
  obstacle(): string | undefined
  /** Whether what this writer of ours has claimed may still be started (rule 18). */
  mayStart(writer: string): boolean
  /** Whether a writer may still end what it claimed (rule 17). Asked about our own, it renews what shows others that we live. */
  isAlive(writer: string): MaybePromise<boolean>
  /** A dead writer has nothing left to recover: what was kept to tell whether it lives may go. */
  forgetWriter(writer: string): MaybePromise<void>
  /** How many reads wait for an answer. */
  readonly waitingReads: number
  /**
   * Whether it is this process's turn at work that one of all processes is to do, once in so long. A turn is a matter of time
   * and not of a lock: whoever stops in the middle of its turn has had it.
   */
  takeTurn(work: string, everyMs: number): MaybePromise<boolean>
  /** Tells what other processes commit, until it is ended; own commits do not count. */
  watch(tell: TellChange): StoreWatcher
  /**
   * Where the journal is kept in parts by time: makes the next part in time, and drops those older than the journal is
   * kept; gives how many groups went with them. Groups outside of any part, and elsewhere all, are forgotten one by one.
   */
  tendParts?(nowMs: number, keptMs: number): Promise<number>
  /** Throws when a change could not be written now; writes nothing. */
  checkWritable(waitMs: number): MaybePromise<void>
  close(): MaybePromise<void>
}

/** One change waiting for its commit. It may begin twice: once in a group that failed, once alone. */
export interface PendingChange<Result = unknown> {
  /** Changes of one group are applied in the order of their keys. */
  readonly key: string
  /**
   * What the change is about: changes of different lanes may take their steps side by side. `undefined` for a careful
   * change, which reads before it writes: no other change of any process may come between its steps.
   */
  readonly lane: string | undefined
  begin(group: CommitGroup): Steps<Result>
  /** Called by the engine with what its steps gave, which is handed out after the commit. */
  keep(result: Result): void
}

/** How a part of the store turns steps into the methods of its port. */
export interface StoreContext {
  readonly definition: StoreDefinition
  readonly engine: Engine
  readonly chain: Chain
  readonly keys: KeyRing
  readonly sealed: SealedText
  readonly guard: RowGuard
  /** A change that reads before it writes. Nothing of any process comes between its steps. */
  careful<First, Rest extends unknown[], Result>(
    keyOf: (first: NoInfer<First>) => string,
    change: (group: CommitGroup, first: First, ...rest: Rest) => Steps<Result>,
  ): (first: First, ...rest: Rest) => Promise<Result>
  /** A change whose every statement is conditional by itself; only changes of the same lane wait for each other. */
  lane<First, Rest extends unknown[], Result>(
    keyOf: (first: NoInfer<First>) => string,
    laneOf: (first: NoInfer<First>) => string,
    change: (group: CommitGroup, first: First, ...rest: Rest) => Steps<Result>,
  ): (first: First, ...rest: Rest) => Promise<Result>
  read<Args extends unknown[], Result>(
    steps: (...args: Args) => Steps<Result>,
  ): (...args: Args) => MaybePromise<Result>
  /** A read of several statements that all see the same moment. */
  snapshot<Args extends unknown[], Result>(
    steps: (...args: Args) => Steps<Result>,
  ): (...args: Args) => MaybePromise<Result>
}

/** When something happened, and what identifies it: of the same kind and `about`, one notice is stored. */
export interface Occasion {
  readonly about: string
  readonly atMs: number
  /** Until then the same may happen again. */
  readonly untilMs?: number
}

/** Stores notices for operators as part of a change; set by the module that delivers them. */
export type Notify = (subject: NoticeSubject, occasion: Occasion) => Steps<void>

/** The commit being put together: its events, and the texts that are sealed as one (rule 14). */
export class CommitGroup {
  readonly id: number
  /** The number of the writer whose commit it is. */
  readonly writer: number
  readonly keys: KeyRing
  readonly #notify: Notify
  readonly #events: string[] = []
  readonly #callers = new Segment()
  readonly #payload = new Segment()
  #live = 0

  constructor(parts: Pick<CommitGroup, 'id' | 'writer' | 'keys'> & { readonly notify: Notify }) {
    this.id = parts.id
    this.writer = parts.writer
    this.keys = parts.keys
    this.#notify = parts.notify
  }

  /** Stores a notice for operators with this commit, for each webhook that wants it. */
  notify(subject: NoticeSubject, occasion: Occasion): Steps<void> {
    return this.#notify(subject, occasion)
  }

  get isEmpty(): boolean {
    return this.#events.length === 0
  }

  get eventsJson(): string {
    return `[${this.#events.join(',')}]`
  }

  get callers(): string {
    return this.#callers.text
  }

  get payload(): string {
    return this.#payload.text
  }

  /** How many calls keep this group's payload alive. */
  get live(): number {
    return this.#live
  }

  append(event: JournalEvent): void {
    this.#events.push(JSON.stringify(event))
  }

  /** Text a caller chose: call id, trace id, user id. Kept as long as the journal. */
  addCaller(text: string): Slice {
    return this.#callers.add(this.id, text)
  }

  /** An input or an outcome. Kept as long as results. */
  addPayload(text: string): Slice {
    return this.#payload.add(this.id, text)
  }

  /** Once per call that points into this group's payload. */
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

/** A row as a driver gives it. */
export type Row = Readonly<Record<string, unknown>>

export type SqlValue = string | number | null | Uint8Array

/** One statement whose answer a change or a read waits for. */
export type Ask = Get | All | Write

/**
 * What a change or a read does, one statement at a time: a generator that is written like ordinary code,
 * `const row = yield* get('findCall', record)`. The engine that drives it decides whether an answer takes a moment or a round
 * trip, so the same logic runs on every engine. It must be driven with `yield*`, `drive` or a method of an engine; a bare
 * call does nothing at all (test/store/steps-driven.test.ts finds those).
 */
export type Steps<Result> = Iterable<Ask, Result, void>

/** The first row, if there is one. */
export function get(query: QueryName, ...values: SqlValue[]): Get {
  return new Get(query, values)
}

export function all(query: QueryName, ...values: SqlValue[]): All {
  return new All(query, values)
}

/** How many rows changed. */
export function write(query: QueryName, ...values: SqlValue[]): Write {
  return new Write(query, values)
}

const ANY = {
  get: (query: string, ...values: SqlValue[]) => new Get(query, values),
  all: (query: string, ...values: SqlValue[]) => new All(query, values),
  write: (query: string, ...values: SqlValue[]) => new Write(query, values),
}

/** `get`, `all` and `write` for a module outside of the kernel, with the names of its statements checked by the compiler. */
export function statements<Name extends string>(): {
  readonly [Way in keyof typeof ANY]: (
    query: Name | QueryName,
    ...values: SqlValue[]
  ) => ReturnType<(typeof ANY)[Way]>
} {
  return ANY
}

const LIST_LENGTH = 50

/**
 * A list in a statement, `IN (${LIST})`, for what is done to many rows: a careful change must not take a round trip for each of
 * them, as every process waits for it.
 */
export const LIST = Array(LIST_LENGTH).fill('?').join(', ')

/** Values in pieces that fill a list; what is missing from the last is null, which equals nothing. */
export function listsOf<Value extends string | number>(values: readonly Value[]): (Value | null)[][] {
  return Array.from({ length: Math.ceil(values.length / LIST_LENGTH) }, (_, nth) =>
    Array.from({ length: LIST_LENGTH }, (_, at) => values[nth * LIST_LENGTH + at] ?? null),
  )
}

/** Why a text with NUL is not kept: PostgreSQL cannot. */
export const NUL_REFUSED = 'a text holds NUL (U+0000), which no store keeps. Leave that character out'

/** Steps that have their result already. */
export function answered<Result>(value: Result): Steps<Result> {
  return { [Symbol.iterator]: () => ({ next: () => ({ done: true, value }) }) }
}

/** Runs steps to their end in one turn; `answer` sets the answer of each ask before it returns. */
export function drive<Result>(steps: Steps<Result>, answer: (ask: Ask) => void): Result {
  const iterator = steps[Symbol.iterator]()
  let step = iterator.next()
  while (step.done !== true) {
    answer(step.value)
    step = iterator.next()
  }
  return step.value
}

/**
 * A statement that is its own steps: the first `next` hands it to the driver, the second gives what it put into
 * `answer`. A generator would do the same, and cost every statement an object more.
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
  readonly way = 'get'
  answer: Row | undefined = undefined
}

class All extends Statement<readonly Row[]> {
  readonly way = 'all'
  answer: readonly Row[] = []
}

class Write extends Statement<number> {
  readonly way = 'write'
  answer = 0
}
