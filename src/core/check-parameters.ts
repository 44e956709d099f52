import { isText } from './check-identity.ts'
import type { Report } from './finding.ts'
import { isJsonObject, type JsonObject } from './json.ts'
import { childPointer } from './json-pointer.ts'

export interface ParameterOptions {
  /** `false` only for tools that somebody else wrote (C-10). */
  readonly describeParameters: boolean
}

/** An input schema lists named parameters, each with a description (OTC-32, OTC-33). */
export function checkParameters(
  schema: JsonObject,
  where: string,
  report: Report,
  options: ParameterOptions,
): void {
  if (Object.keys(schema).length === 0) return
  if (schema.type !== 'object') {
    report(
      where,
      'An input is an object of named parameters, and this schema does not say `"type": "object"`.',
      'Put the value under a name: `z.object({ value: … })`, or `{}` if there are no parameters.',
    )
  }
  if (!options.describeParameters) return
  const { properties = {} } = schema
  for (const [name, parameter] of isJsonObject(properties) ? Object.entries(properties) : []) {
    if (isJsonObject(parameter) && isText(parameter.description)) continue
    report(
      `${where}${childPointer('/properties', name)}`,
      `The parameter "${name}" has no description.`,
      'Say what it means: `.describe("…")` in a library, `"description": "…"` in JSON Schema.',
    )
  }
}
