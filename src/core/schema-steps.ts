import type { Ajv2020 } from 'ajv/dist/2020.js'
import { isJsonObject, type JsonObject, type JsonValue } from './json.ts'
import { mapSubschemas, REFERENCES } from './schema-keywords.ts'
import { setMember } from './set-member.ts'

/** Followed references in one check; a large honest value needs a few for each of its members. */
const MOST_STEPS = 1_000_000
const KEYWORD = 'x-collet-step'

/**
 * Ends a check that would not end: a schema without references looks at each member of a value a fixed number of
 * times, but references under alternatives can double the work with every level. A schema that somebody else wrote
 * may be made for that.
 */
export class StepCounter {
  #left = MOST_STEPS

  /** Before each check. */
  begin(): void {
    this.#left = MOST_STEPS
  }

  /** The same schema, with a step counted before each reference is followed. */
  count(ajv: Ajv2020, schema: JsonObject): JsonObject {
    ajv.addKeyword({
      keyword: KEYWORD,
      before: '$ref',
      errors: false,
      validate: () => {
        this.#left -= 1
        if (this.#left < 0) throw new RangeError('The schema takes too many steps for this value.')
        return true
      },
    })
    return marked(schema)
  }
}

function marked(schema: JsonObject): JsonObject {
  const made: Record<string, JsonValue> = {}
  for (const [keyword, value] of Object.entries(schema)) {
    if (REFERENCES.has(keyword)) made[KEYWORD] = true
    setMember(
      made,
      keyword,
      mapSubschemas(keyword, value, (inner) => (isJsonObject(inner) ? marked(inner) : inner)),
    )
  }
  return made
}
