import { isJsonObject, type JsonObject, type JsonValue, setMember } from '#kernel/base/json'
import { parseJsonText, readPath } from './paths.ts'

/*
 * Keeps the members of a value that a list of paths names, and names the others. Policies of tools (`project`) and the reading of
 * results (`select`) use it.
 * Invariant: an array is not a step of a path: `items.name` keeps the name of each item.
 */

export interface Projected {
  readonly value: JsonValue
  /** Members that were left out, as dotted paths; each once. */
  readonly leftOut: readonly string[]
}

/** The members to keep at one level; `true` keeps everything below. */
type Kept = Map<string, Kept | true>

const MAX_LEFT_OUT = 100

export function project(value: JsonValue, paths: readonly string[]): Projected {
  return projector(paths)(value)
}

/** Reads the paths once, to project many values. */
export function projector(paths: readonly string[]): (value: JsonValue) => Projected {
  const kept = keptOf(paths)
  return (value) => {
    const leftOut = new Set<string>()
    return { value: keep(value, kept, '', leftOut), leftOut: [...leftOut] }
  }
}

function keptOf(paths: readonly string[]): Kept {
  const root: Kept = new Map()
  for (const path of paths) {
    let level = root
    const steps = stepsOf(path)
    for (const [index, step] of steps.entries()) {
      const below = level.get(step)
      if (below === true) break
      if (index === steps.length - 1) level.set(step, true)
      else {
        const next: Kept = below ?? new Map()
        level.set(step, next)
        level = next
      }
    }
  }
  return root
}

/** `items.name`, `items[].name`, `items.*.name` and `/items/name` are the same. */
function stepsOf(path: string): readonly string[] {
  return (readPath(path.replaceAll('[]', '')) ?? []).filter((step) => step !== '*')
}

function keep(value: JsonValue, kept: Kept, path: string, leftOut: Set<string>): JsonValue {
  const parsed = parseJsonText(value)
  if (Array.isArray(parsed)) return parsed.map((item) => keep(item, kept, path, leftOut))
  if (!isJsonObject(parsed)) return value
  return keepMembers(parsed, kept, path, leftOut)
}

function keepMembers(object: JsonObject, kept: Kept, path: string, leftOut: Set<string>): JsonObject {
  const copy: Record<string, JsonValue> = {}
  for (const [name, member] of Object.entries(object)) {
    const below = kept.get(name)
    const inner = path === '' ? name : `${path}.${name}`
    if (below === undefined) {
      if (leftOut.size < MAX_LEFT_OUT) leftOut.add(inner)
    } else setMember(copy, name, below === true ? member : keep(member, below, inner, leftOut))
  }
  return copy
}
