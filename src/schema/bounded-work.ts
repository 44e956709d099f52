import { createContext, Script } from 'node:vm'
import type { ErrorObject } from 'ajv/dist/2020.js'
import { childPointer, type JsonObject, type JsonValue } from '#kernel/base/json'
import { compileLinear, type LinearPattern } from './patterns.ts'

/**
 * Looks at a value in one check, each of them some ten nanoseconds. A result of a megabyte with ten thousand members
 * takes about fifty thousand.
 */
const MAX_STEPS = 700_000
/** The linear-time engine at its slowest: characters, times instructions of the pattern, that take about 20 ms. */
const MAX_LINEAR_WORK = 80_000
/** Making an instruction ready costs as much as running it on so many characters. */
const COMPILED_AS_CHARACTERS = 10
/** For what is left to the native engine: 20 ms, 50 ms and what the steps take stay under a tenth of a second. */
const PATTERN_DEADLINE_MS = 50
/** Schemas inside schemas, as far as one value leads through them. */
const MAX_DEPTH = 800
const MAX_PROBLEMS = 5_000
/** A problem costs more than a look. */
const STEPS_A_PROBLEM = 10
/** Texts are compared and hashed many characters at a time. */
const CHARACTERS_A_STEP = 64
/** Canonical text of a value costs more than looking at it. */
const STEPS_A_KEY = 12
/** So does keeping one, to find it again. */
const STEPS_KEPT = 4

class TooMuchWork extends Error {}
class NeedsDeadline extends Error {}

const TOO_MUCH = new TooMuchWork('The schema asks for too much work for this value.')
const NEEDS_DEADLINE = new NeedsDeadline(
  'The patterns have more to match than the linear-time engine may take.',
)

export function isTooMuchWork(error: unknown): boolean {
  return error instanceof TooMuchWork
}

export function needsDeadline(error: unknown): boolean {
  return error instanceof NeedsDeadline
}

/** What one check may still do, and the problems it has found. */
export class BoundedWork {
  #stepsLeft = MAX_STEPS
  #linearLeft = MAX_LINEAR_WORK
  #depth = 0
  #problems: ErrorObject[] | undefined
  #onlyFirst = true
  readonly #engine: 'linear' | 'native'

  constructor(engine: 'linear' | 'native') {
    this.#engine = engine
  }

  spend(steps: number): void {
    this.#stepsLeft -= steps
    if (this.#stepsLeft < 0) throw TOO_MUCH
  }

  enter(checks: number): void {
    this.#depth += 1
    if (this.#depth > MAX_DEPTH) throw TOO_MUCH
    this.spend(checks + 1)
  }

  leave(): void {
    this.#depth -= 1
  }

  /** From here on problems are listed: the first one of each place that was tried, or all. */
  list(which: 'first' | 'all'): ErrorObject[] {
    this.#depth = 0
    this.#onlyFirst = which === 'first'
    this.#problems = []
    return this.#problems
  }

  get isListing(): boolean {
    return this.#problems !== undefined
  }

  /** Whether one problem decides, so that no other is looked for. */
  get endsAtFirst(): boolean {
    return this.#onlyFirst || this.#problems === undefined
  }

  get problemCount(): number {
    return this.#problems?.length ?? 0
  }

  /** Takes back the problems of alternatives that were not meant. */
  forgetAfter(count: number): void {
    if (this.#problems !== undefined) this.#problems.length = count
  }

  /** Does something without listing its problems. */
  quietly(look: () => boolean): boolean {
    const problems = this.#problems
    this.#problems = undefined
    const found = look()
    this.#problems = problems
    return found
  }

  /** Notes a problem where they are listed; always `false`, the verdict. */
  fail(keyword: string, params: Readonly<Record<string, unknown>>, { at, by }: Position): false {
    if (this.#problems === undefined) return false
    this.spend(STEPS_A_PROBLEM)
    if (this.#problems.length >= MAX_PROBLEMS) throw TOO_MUCH
    this.#problems.push({ keyword, params, instancePath: at, schemaPath: `${by}/${keyword}` })
    return false
  }

  spendText({ length }: string): void {
    this.spend(1 + Math.floor(length / CHARACTERS_A_STEP))
  }

  /** The names of an object's members; asking for them is work of its own. */
  namesOf(value: JsonObject): readonly string[] {
    const names = Object.keys(value)
    this.spend(2 * names.length)
    return names
  }

  /** Before a value is kept in a set. */
  spendKept(value: JsonValue): void {
    this.spend(STEPS_KEPT)
    if (typeof value === 'string') this.spendText(value)
  }

  /** Before a value is written as canonical text, or compared. */
  spendWhole(value: JsonValue): void {
    this.spend(STEPS_A_KEY)
    if (typeof value === 'string') this.spendText(value)
    if (typeof value !== 'object' || value === null) return
    this.enter(0)
    for (const [name, member] of Object.entries(value)) {
      this.spendText(name)
      this.spendWhole(member)
    }
    this.leave()
  }

  matches(pattern: BoundedPattern, text: string): boolean {
    this.spendText(text)
    if (this.#engine === 'native') return pattern.native.test(text)
    const isNew = !pattern.isCompiled
    const linear = pattern.linear
    if (!linear.ok) throw TOO_MUCH
    const characters = text.length + 1 + (isNew ? COMPILED_AS_CHARACTERS : 0)
    this.#linearLeft -= characters * linear.size
    if (this.#linearLeft < 0) throw NEEDS_DEADLINE
    return linear.test(text)
  }
}

/** A pattern of another party: on the engine that cannot hang, or on the fast one where a deadline ends it. */
export class BoundedPattern {
  readonly #source: string
  #linear: LinearPattern | undefined
  #native: RegExp | undefined

  constructor(source: string) {
    this.#source = source
  }

  get isCompiled(): boolean {
    return this.#linear !== undefined
  }

  get linear(): LinearPattern {
    this.#linear ??= compileLinear(this.#source)
    return this.#linear
  }

  get native(): RegExp {
    this.#native ??= new RegExp(this.#source, 'u')
    return this.#native
  }
}

/** Where a check stands, in the value (`at`) and in the schema (`by`); both empty while no problem is listed. */
export interface Position {
  readonly at: string
  readonly by: string
}

export const NOWHERE: Position = Object.freeze({ at: '', by: '' })
export const BEGINNING: Position = Object.freeze({ at: '', by: '#' })

/** The same place of the value, further inside the schema. */
export function deeper(
  work: BoundedWork,
  { at, by }: Position,
  keyword: string,
  step?: string | number,
): Position {
  if (!work.isListing) return NOWHERE
  const path = childPointer(by, keyword)
  return { at, by: step === undefined ? path : childPointer(path, step) }
}

/** A member or item of the value. */
export function inside(
  work: BoundedWork,
  position: Position,
  name: string | number,
  keyword: string,
  step?: string | number,
): Position {
  if (!work.isListing) return NOWHERE
  return { at: childPointer(position.at, name), by: deeper(work, position, keyword, step).by }
}

/** Which members and items some keyword has looked at; kept only where `unevaluated…` asks for it. */
export class Seen {
  readonly names = new Set<string>()
  readonly items = new Set<number>()

  addName(name: string, work: BoundedWork): void {
    work.spendKept(name)
    this.names.add(name)
  }

  addItem(index: number, work: BoundedWork): void {
    work.spendKept(index)
    this.items.add(index)
  }

  add({ names, items }: Seen, work: BoundedWork): void {
    for (const name of names) this.addName(name, work)
    for (const item of items) this.addItem(item, work)
  }
}

/** Whether all pass; looks no further than the verdict needs. */
export function every<Item>(
  items: readonly Item[],
  work: BoundedWork,
  passes: (item: Item, index: number) => boolean,
): boolean {
  work.spend(items.length)
  let pass = true
  let index = 0
  for (const item of items) {
    if (!passes(item, index)) {
      pass = false
      if (work.endsAtFirst) break
    }
    index += 1
  }
  return pass
}

/** Listing every problem of a larger value would cost more memory than the value itself. */
const MAX_VALUES_EXPLAINED = 2_000

export function isLarge(value: JsonValue): boolean {
  const waiting = [value]
  for (let seen = 0; seen < waiting.length; seen += 1) {
    const next = waiting[seen]
    if (typeof next !== 'object' || next === null) continue
    const members = Object.values(next)
    if (waiting.length + members.length > MAX_VALUES_EXPLAINED) return true
    waiting.push(...members)
  }
  return false
}

interface Slot {
  run: (() => void) | undefined
}

let slot: Slot | undefined
let script: Script | undefined

/**
 * Runs something that may take for ever, on this thread, and ends it at the deadline: the engine stops it wherever it
 * is, also inside a pattern that goes back and forth. Costs a thread, so it is for large values only.
 */
export function withinDeadline<Result>(run: () => Result): Result {
  for (let timeout = PATTERN_DEADLINE_MS; ; timeout *= 2) {
    const before = process.cpuUsage()
    const ended = endedWithin(run, timeout)
    if (ended !== undefined) return ended.result
    const { user, system } = process.cpuUsage(before)
    // On a machine that had other things to do, the time went by without work: it gets another chance.
    const wasIdle = (user + system) / 1_000 < timeout / 2
    if (!wasIdle || timeout >= MAX_DEADLINE_MS) throw TOO_MUCH
  }
}

const MAX_DEADLINE_MS = 4 * PATTERN_DEADLINE_MS

function endedWithin<Result>(run: () => Result, timeout: number): { readonly result: Result } | undefined {
  slot ??= createSlot()
  script ??= new Script('run()')
  let ended: { readonly result: Result } | undefined
  slot.run = () => {
    ended = { result: run() }
  }
  try {
    script.runInContext(slot, { timeout })
  } catch (error) {
    if (!isTimeout(error)) throw error
    return undefined
  } finally {
    slot.run = undefined
  }
  return ended
}

function createSlot(): Slot {
  const made: Slot = { run: undefined }
  createContext(made)
  return made
}

/** It comes from the other context, whose `Error` is another one. */
function isTimeout(error: unknown): boolean {
  return (
    typeof error === 'object' &&
    error !== null &&
    'code' in error &&
    error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT'
  )
}

/** Whether a value is compared by its parts. */
export function isStructured(value: JsonValue): boolean {
  return typeof value === 'object' && value !== null
}
