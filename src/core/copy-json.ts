import type { JsonArray, JsonObject, JsonValue } from './json.ts'
import { childPointer } from './json-pointer.ts'
import { setMember } from './set-member.ts'

/** A plain copy, or the first place that JSON cannot carry. */
export type CopiedJson =
  | { readonly ok: true; readonly value: JsonValue }
  | {
      readonly ok: false
      readonly pointer: string
      readonly problem: string
      /** It may be JSON, but is too much of it. */
      readonly tooLarge: boolean
    }

/** Also ends cycles. */
const DEEPEST = 256
/** Objects shared many times over could otherwise unfold without end. */
const MOST_VALUES = 100_000

export interface CopyLimits {
  readonly mostValues?: number
}

/** Copies what an author wrote as a JavaScript value; members that are `undefined` are left out. */
export function copyJson(value: unknown, { mostValues = MOST_VALUES }: CopyLimits = {}): CopiedJson {
  const budget = { left: mostValues, of: mostValues }
  try {
    return { ok: true, value: copy(value, '', 0, budget) }
  } catch (error) {
    if (error instanceof NotJson) {
      return { ok: false, pointer: error.pointer, problem: error.message, tooLarge: error.tooLarge }
    }
    throw error
  }
}

interface Budget {
  left: number
  readonly of: number
}

class NotJson extends Error {
  readonly pointer: string
  readonly tooLarge: boolean

  constructor(pointer: string, problem: string, tooLarge = false) {
    super(problem)
    this.pointer = pointer
    this.tooLarge = tooLarge
  }
}

function copy(value: unknown, pointer: string, depth: number, budget: Budget): JsonValue {
  budget.left -= 1
  if (budget.left < 0) throw new NotJson(pointer, `Holds more than ${budget.of} values.`, true)
  if (value === null || typeof value === 'boolean') return value
  if (typeof value === 'string') {
    if (!value.isWellFormed()) throw new NotJson(pointer, 'Is a text with half of a surrogate pair.')
    return value
  }
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new NotJson(pointer, `Is ${value}, which JSON cannot carry.`)
    return value
  }
  if (typeof value !== 'object') throw new NotJson(pointer, `Is a ${typeof value}, which JSON cannot carry.`)
  if (depth >= DEEPEST) {
    throw new NotJson(pointer, `Is nested deeper than ${DEEPEST} levels, or contains itself.`, true)
  }
  return Array.isArray(value)
    ? copyArray(value, pointer, depth + 1, budget)
    : copyObject(value, pointer, depth + 1, budget)
}

function copyArray(values: readonly unknown[], pointer: string, depth: number, budget: Budget): JsonArray {
  const copied: JsonValue[] = []
  for (const [index, value] of values.entries()) {
    copied.push(copy(value, childPointer(pointer, index), depth, budget))
  }
  return copied
}

function copyObject(value: object, pointer: string, depth: number, budget: Budget): JsonObject {
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    throw new NotJson(pointer, 'Is an instance of a class, which JSON cannot carry.')
  }
  const copied: Record<string, JsonValue> = {}
  for (const [name, member] of Object.entries(value)) {
    if (member !== undefined)
      setMember(copied, name, copy(member, childPointer(pointer, name), depth, budget))
  }
  return copied
}
