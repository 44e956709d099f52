import { hash } from 'node:crypto'
import {
  canonicalJson,
  childPointer,
  copyJson,
  defined,
  isJsonObject,
  type JsonObject,
  type JsonValue,
} from '#kernel/base/json'
import type { ChangeClass } from '#kernel/journal/events'
import type { ToolRequirements } from '#kernel/tool/tool'
import type { StoredDefinition } from '#store/imports'
import { type Difference, schemaDiff } from './schema-diff.ts'
import type { OfferedTool } from './source.ts'
import { suspicionsOf } from './suspicions.ts'

/**
 * Compares a definition with the accepted one, and hashes definitions. Pins use it, and so do calls to a program that may offer other
 * definitions than before.
 * Invariant: if `pinHash` differs, there is at least one difference.
 */

/** A definition, and the identity of the upstream that offers it. */
export type OfferedBy = Pick<StoredDefinition, 'offered' | 'identity'>

/** The differences between two definitions, and the new suspicions about the second. */
export function definitionDiff(before: OfferedBy, after: OfferedBy): readonly Difference[] {
  return [...suspicionDiff(before, after), ...targetDiff(before, after), ...offerDiff(before, after)]
}

function offerDiff({ offered: before }: OfferedBy, { offered: after }: OfferedBy): readonly Difference[] {
  return [
    ...leafDiff('title', before.title, after.title, 'wording'),
    ...leafDiff('description', upstreamText(before), upstreamText(after), 'wording'),
    ...schemaDiff(before.inputSchema, after.inputSchema, 'input'),
    ...outputDiff(before.outputSchema, after.outputSchema),
    ...requirementsDiff(before.requirements, after.requirements),
    // A withdrawn hint takes effect at once, so only additional hints wait for a decision.
    ...leafDiff('hints', { ...before.hints }, { ...after.hints }, 'widening'),
    ...entryDiff(before.entry, after.entry),
    ...leafDiff('passedOn', before.passedOn, after.passedOn, 'wording'),
  ]
}

/** Models follow the files of a skill, so a changed file is breaking, like a changed schema. */
function entryDiff(before: OfferedTool['entry'], after: OfferedTool['entry']): readonly Difference[] {
  const isSkill = before?.kind === 'skill'
  const [left, right] = isSkill
    ? [skillFacts(before), skillFacts(after)]
    : [before?.definition, after?.definition]
  return leafDiff('definition', left, right, isSkill ? 'breaking' : 'wording')
}

/** The definition of a skill, with its files by their addresses. */
function skillFacts(entry: OfferedTool['entry']): JsonObject {
  const { resources, ...rest } = entry?.definition ?? {}
  if (!Array.isArray(resources)) return { ...rest, ...(resources === undefined ? {} : { files: resources }) }
  const files = resources
    .filter(isJsonObject)
    .map(({ uri, digest }): [string, JsonValue] => [String(uri), digest ?? null])
  return { ...rest, files: Object.fromEntries(files) }
}

function outputDiff(before: JsonObject | null, after: JsonObject | null): readonly Difference[] {
  if (before !== null && after !== null) return schemaDiff(before, after, 'output')
  return leafDiff('output', before ?? undefined, after ?? undefined, after === null ? 'breaking' : 'widening')
}

/** Compares the target of calls: a new origin is suspicious, any other change is breaking (rule 32). */
function targetDiff(before: OfferedBy, after: OfferedBy): readonly Difference[] {
  const known = new Set(originsIn([before.identity, before.offered.binding]))
  const origins = [...new Set(originsIn([after.identity, after.offered.binding]))]
  const added = origins.filter((origin) => !known.has(origin))
  const suspicious = { where: 'target', class: 'suspicious' } as const
  return [
    ...added.map((origin) => ({ ...suspicious, says: `calls would go to ${origin}, a new origin` })),
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

/** Additional requirements are breaking for callers; fewer requirements are widening. */
function requirementsDiff(
  before: ToolRequirements | undefined,
  after: ToolRequirements | undefined,
): readonly Difference[] {
  const [left, right] = [needsOf(requirementsJson(before)), needsOf(requirementsJson(after))]
  const found: Difference[] = []
  for (const [need, after] of right) {
    const before = left.get(need)
    const where = `requirements/${need}`
    if (before === undefined) found.push({ where, class: 'breaking', says: 'is needed now', after })
    else if (canonicalJson(before) !== canonicalJson(after))
      found.push({ where, class: 'breaking', says: 'changes', before, after })
  }
  for (const [need, before] of left) {
    const where = `requirements/${need}`
    if (!right.has(need)) found.push({ where, class: 'widening', says: 'is no longer needed', before })
  }
  return found
}

/** Each requirement by name, with a separate entry for each scope. */
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
  const { id, oauth2, ...rest } = isJsonObject(entry) ? entry : {}
  const name = `${kind}/${typeof id === 'string' ? id : canonicalJson(entry)}`
  needs.set(name, entry)
  if (typeof id !== 'string' || !isJsonObject(oauth2) || !Array.isArray(oauth2.scopes)) return
  const { scopes, ...further } = oauth2
  needs.set(name, { ...rest, id, oauth2: further })
  for (const scope of scopes) needs.set(`${name}/scopes/${String(scope)}`, scope)
}

/**
 * Hash of everything that a pin covers (rule 32): the identity of the upstream, the tool's name, texts and schemas, and everything
 * that decides which request is sent where. The operator's policy is not part of it.
 */
export function pinHash(identity: JsonObject, offered: OfferedTool): string {
  const { nativeName, title, inputSchema, outputSchema, requirements, binding, hints } = offered
  const { entry, passedOn } = offered
  const facts = defined({
    identity,
    nativeName,
    title,
    description: upstreamText(offered),
    inputSchema,
    outputSchema,
    requirements: requirements && requirementsJson(requirements),
    binding,
    hints: hints && { ...hints },
    entry: entry && { ...entry },
    passedOn,
  })
  return hash('sha256', canonicalJson(facts), 'base64url')
}

/** The description, if the upstream wrote it: the texts of these entries are Collet's, and may change with its version. */
function upstreamText({ description, entry }: OfferedTool): string | undefined {
  return entry?.kind === 'resources' || entry?.kind === 'completions' ? undefined : description
}

/** Converts requirements to JSON, including further members. */
function requirementsJson(requirements: ToolRequirements = {}): JsonValue {
  const copied = copyJson(requirements)
  return copied.ok ? copied.value : copied.problem
}
