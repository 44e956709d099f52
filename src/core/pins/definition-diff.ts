import { canonicalJson } from '#core/canonical-json'
import type { JsonValue } from '#core/json'
import type { ChangeClass, KeptDefinition } from '#core/ports/pin-store'
import { requirementsJson } from './pin-hash.ts'

/** One difference, in words for the operator. */
export interface Difference {
  /** Member of the definition, with a JSON Pointer where it goes deeper. */
  readonly where: string
  readonly class: ChangeClass
  readonly says: string
  readonly before?: JsonValue
  readonly after?: JsonValue
}

/** What another definition would change for those who use the tool. */
export function definitionDiff(before: KeptDefinition, after: KeptDefinition): readonly Difference[] {
  const differences: Difference[] = []
  const compare = (where: string, left: JsonValue, right: JsonValue, kind: ChangeClass): void => {
    if (canonicalJson(left) === canonicalJson(right)) return
    differences.push({ where, class: kind, says: 'changes', before: left, after: right })
  }
  compare('identity', before.identity, after.identity, 'breaking')
  compare('title', before.offered.title ?? '', after.offered.title ?? '', 'wording')
  compare('description', before.offered.description, after.offered.description, 'wording')
  compare('input', before.offered.inputSchema, after.offered.inputSchema, 'breaking')
  compare('output', before.offered.outputSchema, after.offered.outputSchema, 'breaking')
  compare('binding', before.offered.binding, after.offered.binding, 'breaking')
  compare(
    'requirements',
    requirementsJson(before.offered.requirements),
    requirementsJson(after.offered.requirements),
    'breaking',
  )
  return differences
}
