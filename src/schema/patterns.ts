import { createContext, Script } from 'node:vm'
import { RE2JS } from 're2js'
import { childPointer, isJsonObject, isRecord, type JsonObject } from '#kernel/base/json'
import { visitSchemas } from './keywords.ts'

/**
 * Regular expressions in schemas. Those in imported schemas run on an engine without backtracking, or under a deadline, so
 * that no text can hang the server; authored ones run on the native engine. The validator and `imported.ts` use it.
 * A pattern matches exactly the texts that it matches in ECMA-262.
 */

/** A pattern that is not enforced here, and why. */
interface HardPattern {
  readonly pointer: string
  readonly pattern: string
  readonly problem: string
}

/** Maximum number of instructions of all patterns of one schema together, because compiling takes time. */
const MAX_INSTRUCTIONS = 10_000

/** The patterns that no linear-time engine runs, and those beyond the limit. */
export function findHardPatterns(schema: JsonObject): readonly HardPattern[] {
  const found: HardPattern[] = []
  const problems = new Map<string, string | undefined>()
  let left = MAX_INSTRUCTIONS
  const problemOf = (pattern: string): string | undefined => {
    if (problems.has(pattern)) return problems.get(pattern)
    const compiled = left > 0 ? compileLinear(pattern) : TOO_MANY
    if (compiled.ok) left -= compiled.size
    const problem = compiled.ok ? undefined : compiled.problem
    problems.set(pattern, problem)
    return problem
  }
  visitSchemas(schema, '', ({ pattern, patternProperties }, pointer) => {
    const names = isJsonObject(patternProperties) ? Object.keys(patternProperties) : []
    const written = names.map((name) => ({ name, place: childPointer(`${pointer}/patternProperties`, name) }))
    if (typeof pattern === 'string') written.unshift({ name: pattern, place: `${pointer}/pattern` })
    for (const { name, place } of written) {
      const problem = problemOf(name)
      if (problem !== undefined) found.push({ pointer: place, pattern: name, problem })
    }
  })
  return found
}

const TOO_MANY: LinearPattern = { ok: false, problem: 'the schema has more patterns than are checked' }

/** A pattern compiled for the linear-time engine, or why it cannot be. */
type LinearPattern =
  | {
      readonly ok: true
      readonly test: (text: string) => boolean
      /** Number of instructions, which is the maximum cost of one character of a text. */
      readonly size: number
    }
  | { readonly ok: false; readonly problem: string }

/** A pattern of a schema, compiled at its first use: in linear time, or by the native engine. */
export class Pattern {
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

/** For texts that the linear-time engine would take too long for: at most a tenth of a second with the rest of the check. */
const DEADLINE_MS = 50
const MAX_DEADLINE_MS = 4 * DEADLINE_MS

interface Slot {
  run: (() => void) | undefined
}

let slot: Slot | undefined
let script: Script | undefined

/**
 * Runs a function on this thread that may never return, and ends it at the deadline, also inside a pattern that
 * backtracks: the result is then `undefined`. It costs a thread, so it is for large values only.
 */
export function runWithinDeadline<Result>(run: () => Result): Result | undefined {
  for (let timeout = DEADLINE_MS; ; timeout *= 2) {
    const before = process.cpuUsage()
    const ended = endedWithin(run, timeout)
    if (ended !== undefined) return ended.result
    const { user, system } = process.cpuUsage(before)
    // On a busy machine the time may pass without work: the run then gets another chance.
    const wasIdle = (user + system) / 1_000 < timeout / 2
    if (!wasIdle || timeout >= MAX_DEADLINE_MS) return undefined
  }
}

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

/** Does not use `instanceof`, because the error comes from the other context, which has its own `Error`. */
function isTimeout(error: unknown): boolean {
  return isRecord(error) && error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT'
}

/** Longer patterns take long to compile, and are not written by hand. */
const MAX_PATTERN_LENGTH = 4_096
/** Counted repetitions are unrolled: a short pattern can be a long program. */
const MAX_PROGRAM_SIZE = 2_500

/** The pattern has to compile as ECMA-262 too: syntax that only this engine knows would mean something else upstream. */
export function compileLinear(pattern: string): LinearPattern {
  if (pattern.length > MAX_PATTERN_LENGTH) {
    return { ok: false, problem: `has more than ${MAX_PATTERN_LENGTH} characters` }
  }
  try {
    new RegExp(pattern, 'u')
    if (unfoldedSize(pattern) > MAX_PROGRAM_SIZE) {
      return { ok: false, problem: `its repetitions unfold to more than ${MAX_PROGRAM_SIZE} steps` }
    }
    const compiled = RE2JS.compile(RE2JS.translateRegExp(withSpaces(pattern)))
    return { ok: true, test: (text) => compiled.test(text), size: compiled.programSize() }
  } catch (error) {
    const detail = error instanceof Error ? error.message : 'it does not compile'
    return { ok: false, problem: detail }
  }
}

const NEEDLESS = /[-_ @'":#,=<>~!%&`;]/

/** Removes escapes of characters that need none, such as `\-` or `\@`: common, harmless, and refused by the `u` flag. */
export function withoutNeedlessEscapes(pattern: string): string {
  return mapEscapes(pattern, (escaped, inClass) =>
    NEEDLESS.test(escaped) && !(inClass && escaped === '-') ? escaped : undefined,
  )
}

const SPACES =
  '\\t\\n\\x0B\\f\\r \\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}\\x{FEFF}'

/** ECMA-262 counts more characters as white space than the engine does. */
function withSpaces(pattern: string): string {
  return mapEscapes(pattern, (escaped, inClass) => {
    if (escaped === 's') return inClass ? SPACES : `[${SPACES}]`
    return escaped === 'S' && !inClass ? `[^${SPACES}]` : undefined
  })
}

/** Replaces escape sequences; one for which `map` returns `undefined` stays unchanged. */
function mapEscapes(pattern: string, map: (escaped: string, inClass: boolean) => string | undefined): string {
  let inClass = false
  return pattern.replaceAll(/\\([\s\S])|[[\]]/g, (found, escaped: string | undefined) => {
    if (escaped !== undefined) return map(escaped, inClass) ?? found
    inClass = found === '['
    return found
  })
}

/** Returns an upper bound of the number of parts that a valid pattern has once its counted repetitions are unrolled. */
function unfoldedSize(pattern: string): number {
  // The size so far of each open group, and of the last part, which a repetition multiplies.
  const open = [{ size: 0, last: 0 }]
  let here = { size: 0, last: 0 }
  const take = (size: number): void => {
    here.size += size
    here.last = size
  }
  for (const [token, min, max] of pattern.matchAll(PARTS)) {
    if (token === '(') {
      open.push(here)
      here = { size: 0, last: 0 }
    } else if (token === ')') {
      const { size } = here
      here = open.pop() ?? here
      take(size + 2)
    } else if (min !== undefined) {
      const times = Math.max(Number(min), Number(max ?? '') || 1, 1)
      here.size += here.last * (times - 1)
      here.last *= times
    } else take(token.startsWith('\\p') || token.startsWith('\\P') ? CLASS_SIZE : 1 + token.length / 8)
  }
  return here.size
}

/** Assumed size of a Unicode class, which has hundreds of ranges. */
const CLASS_SIZE = 20
const PARTS = /\\[pP]\{[^}]*\}|\\[\s\S]|\[(?:\\[\s\S]|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|[\s\S]/g
