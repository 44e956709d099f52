import { canonicalJson } from '#core/canonical-json'
import type { JsonValue } from '#core/json'
import type { KeptDefinition, PinRecord } from '#core/ports/pin-store'

/**
 * Finds the vanished tool that a new one was before: the same schemas with the same text or target, under another name.
 * Looks each one up, because an upstream may replace thousands of tools at once.
 */
export function createRenameFinder(
  gone: readonly PinRecord[],
): (definition: KeptDefinition) => PinRecord | undefined {
  let known: Map<string, PinRecord> | undefined
  return (definition) => {
    known ??= new Map(
      gone.flatMap((pin) =>
        pin.accepted === undefined ? [] : marksOf(pin.accepted).map((mark) => [mark, pin]),
      ),
    )
    const [byText = '', byTarget = ''] = marksOf(definition)
    return known.get(byText) ?? known.get(byTarget)
  }
}

function marksOf({ offered }: KeptDefinition): readonly string[] {
  const { inputSchema, outputSchema, description, binding } = offered
  const schemas: readonly JsonValue[] = [inputSchema, outputSchema]
  return [canonicalJson(['text', description, ...schemas]), canonicalJson(['target', binding, ...schemas])]
}
