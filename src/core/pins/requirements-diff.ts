import { canonicalJson } from '#core/canonical-json'
import { isJsonObject, type JsonValue } from '#core/json'
import type { ToolRequirements } from '#core/tool'
import { requirementsJson } from './pin-hash.ts'
import type { Difference } from './schema-diff.ts'

/** More that a caller must bring breaks, less widens. */
export function requirementsDiff(
  before: ToolRequirements | undefined,
  after: ToolRequirements | undefined,
): readonly Difference[] {
  const [left, right] = [needsOf(requirementsJson(before)), needsOf(requirementsJson(after))]
  const found: Difference[] = []
  for (const [need, value] of right) {
    const was = left.get(need)
    const where = `requirements/${need}`
    if (was === undefined) found.push({ where, class: 'breaking', says: 'is needed now', after: value })
    else if (canonicalJson(was) !== canonicalJson(value)) {
      found.push({ where, class: 'breaking', says: 'changes', before: was, after: value })
    }
  }
  for (const [need, value] of left) {
    if (right.has(need)) continue
    found.push({ where: `requirements/${need}`, class: 'widening', says: 'is needed no more', before: value })
  }
  return found
}

/** Each thing that is needed, by a name of its own; scopes one by one. */
function needsOf(requirements: JsonValue): ReadonlyMap<string, JsonValue> {
  const needs = new Map<string, JsonValue>()
  for (const [kind, value] of isJsonObject(requirements) ? Object.entries(requirements) : []) {
    if (value === false) continue
    if (!Array.isArray(value)) needs.set(kind, value)
    else for (const entry of value) addEntry(kind, entry, needs)
  }
  return needs
}

function addEntry(kind: string, entry: JsonValue, needs: Map<string, JsonValue>): void {
  if (!isJsonObject(entry) || typeof entry.id !== 'string') {
    needs.set(`${kind}/${canonicalJson(entry)}`, entry)
    return
  }
  const { oauth2, ...rest } = entry
  const name = `${kind}/${entry.id}`
  if (!isJsonObject(oauth2) || !Array.isArray(oauth2.scopes)) {
    needs.set(name, entry)
    return
  }
  const { scopes, ...further } = oauth2
  needs.set(name, { ...rest, oauth2: further })
  for (const scope of scopes) needs.set(`${name}/scopes/${String(scope)}`, scope)
}
