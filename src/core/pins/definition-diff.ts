import { canonicalJson } from '#core/canonical-json'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { childPointer } from '#core/json-pointer'
import type { ChangeClass, KeptDefinition } from '#core/ports/pin-store'
import { requirementsDiff } from './requirements-diff.ts'
import { type Difference, schemaDiff } from './schema-diff.ts'
import { suspicionsOf } from './suspicions.ts'

/** A definition, and who the upstream was that offered it. */
export type OfferedBy = Pick<KeptDefinition, 'offered' | 'identity'>

/** What another definition would change for those who use the tool, and what is suspicious about it. */
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
  ]
}

function outputDiff(before: JsonObject | null, after: JsonObject | null): readonly Difference[] {
  if (before !== null && after !== null) return schemaDiff(before, after, 'output')
  if (before === after) return []
  if (after === null) return [{ where: 'output', class: 'breaking', says: 'is gone', before }]
  return [{ where: 'output', class: 'widening', says: 'is new', after }]
}

/** Where a call would go: another origin is suspicious whatever else changed, anything else breaks (rule 32). */
function targetDiff(before: OfferedBy, after: OfferedBy): readonly Difference[] {
  const known = new Set(originsIn([before.identity, before.offered.binding]))
  const origins = [...new Set(originsIn([after.identity, after.offered.binding]))]
  const strange = origins.filter((origin) => !known.has(origin))
  return [
    ...strange.map(
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

/** Only what is new: somebody let the others in. */
function suspicionDiff(before: OfferedBy, after: OfferedBy): readonly Difference[] {
  const known = new Set(suspicionsOf(before.offered).map(({ where, says }) => `${where} ${says}`))
  return suspicionsOf(after.offered)
    .filter(({ where, says }) => !known.has(`${where} ${says}`))
    .map(({ where, says }) => ({ where, class: 'suspicious', says }))
}
