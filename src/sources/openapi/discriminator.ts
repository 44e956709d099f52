import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { entriesOf, itemsOf } from './located.ts'
import type { Lowering } from './schema-shelf.ts'

/**
 * `discriminator` is no keyword of JSON Schema. Where it maps values to branches, each branch gets its values; without
 * a map the branches may overlap, so that one of them is enough.
 */
export function splitDiscriminator(
  { value, document }: { readonly value: JsonObject; readonly document: string },
  lowered: Record<string, JsonValue>,
  lowering: Lowering,
): void {
  const { discriminator } = value
  if (!isJsonObject(discriminator) || typeof discriminator.propertyName !== 'string') return
  const { propertyName } = discriminator
  const keyword = Array.isArray(lowered.oneOf) ? 'oneOf' : 'anyOf'
  const branches = lowered[keyword]
  if (!Array.isArray(branches)) return
  const values = valuesByTarget(discriminator, document, lowering)
  const written = itemsOf(value[keyword])
  const split = branches.map((branch, index) => {
    const target = targetOf(written[index], document, lowering)
    const names = target === undefined ? undefined : values.get(target)
    if (names === undefined || !isJsonObject(branch)) return branch
    return { ...branch, properties: { [propertyName]: { enum: names } }, required: [propertyName] }
  })
  const isExclusive = split.every((branch, index) => branch !== branches[index])
  if (isExclusive || keyword === 'anyOf' || lowered.anyOf !== undefined) {
    lowered[keyword] = split
    return
  }
  delete lowered[keyword]
  lowered.anyOf = split
}

function valuesByTarget(
  { mapping }: JsonObject,
  document: string,
  lowering: Lowering,
): ReadonlyMap<string, readonly string[]> {
  const values = new Map<string, string[]>()
  for (const [name, reference] of entriesOf(mapping)) {
    if (typeof reference !== 'string') continue
    // A map may name a schema of the components instead of pointing to it.
    const target =
      lowering.documents.find(reference, document) ??
      lowering.documents.find(`#/components/schemas/${reference}`, document)
    if (target !== undefined) values.set(target.id, [...(values.get(target.id) ?? []), name])
  }
  return values
}

function targetOf(branch: JsonValue | undefined, document: string, lowering: Lowering): string | undefined {
  const reference = isJsonObject(branch) ? branch.$ref : undefined
  return typeof reference === 'string' ? lowering.documents.find(reference, document)?.id : undefined
}
