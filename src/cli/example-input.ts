import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'

/** A small input that fits a simple schema; whether it really does, the tool's own check says. */
export function exampleInput(schema: JsonObject): JsonValue {
  return new Example().of(schema)
}

/** Numbers count upwards, so that an example reads as 1, 2, 3. */
class Example {
  #next = 1

  of(schema: JsonValue | undefined): JsonValue {
    if (!isJsonObject(schema)) return {}
    const { type, examples, minItems } = schema
    if (schema.const !== undefined) return schema.const
    const written = [examples, schema.enum].find((list) => Array.isArray(list) && list.length > 0)
    if (Array.isArray(written)) return written[0]
    if (schema.default !== undefined) return schema.default
    const kind = Array.isArray(type) ? type[0] : type
    if (kind === 'string') return 'text'
    if (kind === 'number' || kind === 'integer') return this.#number(schema)
    if (kind === 'boolean') return true
    if (kind === 'null') return null
    if (kind === 'array') return typeof minItems === 'number' && minItems > 0 ? [this.of(schema.items)] : []
    return this.#object(schema)
  }

  #number({ minimum, maximum }: JsonObject): number {
    const number = this.#next
    this.#next += 1
    if (typeof minimum === 'number' && number < minimum) return minimum
    return typeof maximum === 'number' && number > maximum ? maximum : number
  }

  #object({ properties, required }: JsonObject): JsonObject {
    const names = Array.isArray(required) ? required : []
    const known = isJsonObject(properties) ? properties : {}
    return Object.fromEntries(names.map((name) => [String(name), this.of(known[String(name)])]))
  }
}
