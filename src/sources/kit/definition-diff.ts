import { hash } from 'node:crypto'
import {
  canonicalJson,
  childPointer,
  copyJson,
  isJsonObject,
  type JsonObject,
  type JsonValue,
} from '#kernel/base/json'
import type { ChangeClass } from '#kernel/journal/events'
import type { ToolRequirements } from '#kernel/tool/tool'
import type { KeptDefinition } from '#store/imports'
import { type Difference, schemaDiff } from './schema-diff.ts'
import type { OfferedTool } from './source.ts'
import { suspicionsOf } from './suspicions.ts'

/**
 * Compares a definition with the accepted one, and hashes definitions. Pins and program checks use it.
 */

/** A definition and the identity of its upstream. */
export type OfferedBy = Pick<KeptDefinition, 'offered' | 'identity'>

/** The changes of a definition for the users of the tool, and the suspicions about it. */
export function definitionDiff(before: OfferedBy, after: OfferedBy): readonly Difference[] {
  return [...suspicionDiff(before, after), ...targetDiff(before, after), ...offerDiff(before, after)]
}

function offerDiff({ offered: before }: OfferedBy, { offered: after }: OfferedBy): readonly Difference[] {
  return [
    ...leafDiff('title', before.title, after.title, 'wording'),
    ...leafDiff('description', before.description, after.description, 'wording'),
    ...schemaDiff(before.inputSchema, after.inputSchema, 'input'),
    ...outputDiff(before.outputSchema, after.outputSchema),
    ...requirementsDiff(before.requirements, after.requirements),
    // A withdrawn hint holds at once, so only additional hints wait for a decision.
    ...leafDiff('hints', hintsJson(before), hintsJson(after), 'widening'),
  ]
}

function hintsJson({ hints }: OfferedTool): JsonObject {
  return { ...hints }
}

function outputDiff(before: JsonObject | null, after: JsonObject | null): readonly Difference[] {
  if (before !== null && after !== null) return schemaDiff(before, after, 'output')
  if (before === after) return []
  if (after === null) return [{ where: 'output', class: 'breaking', says: 'is gone', before }]
  return [{ where: 'output', class: 'widening', says: 'is new', after }]
}

/** The target of calls: another origin is suspicious, any other change breaks (rule 32). */
function targetDiff(before: OfferedBy, after: OfferedBy): readonly Difference[] {
  const known = new Set(originsIn([before.identity, before.offered.binding]))
  const origins = [...new Set(originsIn([after.identity, after.offered.binding]))]
  const added = origins.filter((origin) => !known.has(origin))
  return [
    ...added.map(
      (origin): Difference => ({
        where: 'target',
        class: 'suspicious',
        says: `calls would go to ${origin}, where none goes now`,
      }),
    ),
    ...leafDiff('identity', before.identity, after.identity, 'breaking'),
    ...leafDiff('binding', before.offered.binding, after.offered.binding, 'breaking'),
  ]
}

function originsIn(value: JsonValue): readonly string[] {
  if (typeof value === 'string') {
    const url = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? URL.parse(value) : null
    return url === null ? [] : [`${url.protocol}//${url.host}`]
  }
  if (typeof value !== 'object' || value === null) return []
  return Object.values(value).flatMap(originsIn)
}

function leafDiff(
  where: string,
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  found: ChangeClass,
): readonly Difference[] {
  if (isJsonObject(before) && isJsonObject(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)])
    return [...names].flatMap((name) => leafDiff(childPointer(where, name), before[name], after[name], found))
  }
  if (before === undefined) return after === undefined ? [] : [{ where, class: found, says: 'is new', after }]
  if (after === undefined) return [{ where, class: found, says: 'is gone', before }]
  if (canonicalJson(before) === canonicalJson(after)) return []
  return [{ where, class: found, says: 'changes', before, after }]
}

/** Suspicions that the accepted definition does not have. */
function suspicionDiff(before: OfferedBy, after: OfferedBy): readonly Difference[] {
  const known = new Set(suspicionsOf(before.offered).map(({ where, says }) => `${where} ${says}`))
  return suspicionsOf(after.offered)
    .filter(({ where, says }) => !known.has(`${where} ${says}`))
    .map(({ where, says }) => ({ where, class: 'suspicious', says }))
}

/** Additional requirements of callers break, fewer widen. */
function requirementsDiff(
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
    found.push({
      where: `requirements/${need}`,
      class: 'widening',
      says: 'is no longer needed',
      before: value,
    })
  }
  return found
}

/** Each requirement by a name; scopes one by one. */
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

/**
 * Hash of what a pin covers (rule 32): the identity of the upstream, name, texts and schemas of the tool, and everything
 * that decides which request is sent where. The operator's policy is not part of it.
 */
export function pinHash(identity: JsonObject, offered: OfferedTool): string {
  return hash('sha256', canonicalJson(pinnedFacts(identity, offered)), 'base64url')
}

function pinnedFacts(identity: JsonObject, offered: OfferedTool): JsonObject {
  const { nativeName, title, description, inputSchema, outputSchema, requirements, binding, hints } = offered
  return {
    identity,
    nativeName,
    ...(title === undefined ? {} : { title }),
    description,
    inputSchema,
    outputSchema,
    ...(requirements === undefined ? {} : { requirements: requirementsJson(requirements) }),
    binding,
    ...(hints === undefined ? {} : { hints: hintsJson(offered) }),
  }
}

/** Requirements may have further members. */
function requirementsJson(requirements: ToolRequirements | undefined): JsonValue {
  if (requirements === undefined) return {}
  const copied = copyJson(requirements)
  return copied.ok ? copied.value : copied.problem
}
