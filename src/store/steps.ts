import type { QueryName } from './schema.ts'

/** A row as a driver gives it. */
export type Row = Readonly<Record<string, unknown>>

export type SqlValue = string | number | null | Uint8Array

/** One statement whose answer a change or a read waits for. */
export type Ask = Get | All | Write

/**
 * What a change or a read does, one statement at a time: a generator that is written like ordinary code,
 * `const row = yield* get('findCall', record)`. Whoever drives it decides whether an answer takes a moment or a round
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
 * A statement that is its own steps: the first `next` hands it to whoever drives, the second gives what they put into
 * `answer`. A generator would do the same, and cost every statement an object more.
 */
abstract class Statement<Answer> {
  abstract answer: Answer
  readonly query: QueryName
  readonly values: SqlValue[]
  #isAsked = false

  constructor(query: QueryName, values: SqlValue[]) {
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
