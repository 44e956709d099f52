import type { Settings } from '#config/settings'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Tool } from '#kernel/tool/tool'

/**
 * The example call in the banner of a server: a `curl` line that works when it is pasted. `banner.ts` prints it.
 * Invariant: it names a tool that needs no approval or credentials of its own, prefers one without effects, and never
 * contains a key.
 */

/** Bounds the start-up time: each attempt compiles the input schema of a tool. */
const MAX_ATTEMPTS = 20

/** A `curl` line over OTC; `undefined` if no tool is suitable. */
export function exampleCurl(url: string, settings: ExampleSettings): string | undefined {
  return curl(`${url}/tools/call`, settings, ({ id }, input) => ({ request: { tool_id: id, input } }))
}

/** A `curl` line over OpenTool. */
export function exampleOpenToolCurl(url: string, settings: ExampleSettings): string | undefined {
  return curl(`${url}/opentool/call`, settings, ({ name }, params) => {
    return { jsonrpc: '2.0', method: name, params, id: '1' }
  })
}

interface ExampleSettings extends Pick<Settings, 'tools' | 'auth'> {
  /** Callers need a credential, from the config or the store. */
  readonly isKeyed: boolean
}

function curl(
  url: string,
  settings: ExampleSettings,
  bodyFor: (tool: Tool, input: JsonValue) => JsonObject,
): string | undefined {
  const easy = settings.tools.filter(
    ({ requirements, policy, entry }) =>
      requirements === undefined && policy.scopes.length === 0 && entry === undefined,
  )
  const harmless = easy.filter(({ policy }) => policy.safetyTier === 'pure' || policy.safetyTier === 'read')
  for (const tool of [...harmless, ...easy].slice(0, MAX_ATTEMPTS)) {
    const input = exampleInput(tool.inputSchema)
    if (tool.checkInput(input).length > 0) continue
    return [
      `curl -s ${shellQuote(url)}`,
      `-H 'content-type: application/json'`,
      ...credentialHeader(settings),
      `-d ${shellQuote(JSON.stringify(bodyFor(tool, input)))}`,
    ].join(' ')
  }
  return undefined
}

/** The credential itself is never printed: the shell fills it in. */
function credentialHeader({ isKeyed, auth }: ExampleSettings): string[] {
  const { apiKeys, jwt, issuers = [], required } = auth
  if (!isKeyed && required !== true) return []
  const takesTokensOnly = apiKeys.length === 0 && (jwt !== undefined || issuers.length > 0)
  return [`-H "authorization: Bearer $${takesTokensOnly ? 'COLLET_TOKEN' : 'COLLET_API_KEY'}"`]
}

function shellQuote(text: string): string {
  return /^[A-Za-z0-9_./:@=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** A small input for a simple schema; the tool's own check decides whether it is valid. */
export function exampleInput(schema: JsonObject): JsonValue {
  return new Example().of(schema)
}

/** Numbers count upwards, so that an example reads 1, 2, 3. */
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
