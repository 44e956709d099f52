import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { createSchemaValidator } from '#core/schema/validator'
import type { Tool } from '#core/tool'

const acceptance = new WeakMap<JsonObject, boolean>()

/**
 * OTS-43: null for an optional parameter means that it is absent, unless the parameter's own schema takes null.
 * Required parameters keep their null, so that the answer says what is wrong with it.
 */
export function dropNullArguments(tool: Tool, params: JsonValue): JsonValue {
  if (!isJsonObject(params)) return params
  const nulls = Object.keys(params).filter((name) => params[name] === null)
  if (nulls.length === 0) return params
  const { properties, required } = tool.inputSchema
  const needed = new Set<JsonValue>(Array.isArray(required) ? required : [])
  const dropped = new Set(
    nulls.filter(
      (name) =>
        !needed.has(name) &&
        isJsonObject(properties) &&
        Object.hasOwn(properties, name) &&
        !acceptsNull(properties[name]),
    ),
  )
  if (dropped.size === 0) return params
  return Object.fromEntries(Object.entries(params).filter(([name]) => !dropped.has(name)))
}

function acceptsNull(schema: JsonValue | undefined): boolean {
  if (!isJsonObject(schema)) return schema !== false
  const known = acceptance.get(schema)
  if (known !== undefined) return known
  const accepts = createSchemaValidator(schema, { untrusted: true })(null).length === 0
  acceptance.set(schema, accepts)
  return accepts
}
