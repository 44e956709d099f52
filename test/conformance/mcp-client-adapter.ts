/**
 * The client under test of the official client suite: our MCP source, told to list and to call what is offered.
 * The suite starts it with the URL of its server; the scenario's name comes by the environment.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { openMcp } from '../sources/open-mcp.ts'

const [url] = process.argv.slice(-1)
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? ''
const version = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION ?? ''
const revision = version === '2026-07-28' ? 'auto' : 'legacy'
const upstream = openMcp({ url, revision })

/** Any value that the schema takes, for tools whose arguments do not matter. */
function sample(schema: JsonValue | undefined): JsonValue {
  if (!isJsonObject(schema)) return 'text'
  if (Array.isArray(schema.enum)) return schema.enum[0] ?? null
  if (schema.type === 'number' || schema.type === 'integer') return 5
  if (schema.type === 'boolean') return true
  if (schema.type === 'array') return []
  if (schema.type === 'object' || schema.properties !== undefined) return sampleObject(schema)
  return 'text'
}

function sampleObject({ properties }: JsonObject): JsonObject {
  if (!isJsonObject(properties)) return {}
  return Object.fromEntries(Object.entries(properties).map(([name, member]) => [name, sample(member)]))
}

const { tools, warnings } = await upstream.discover()
process.stderr.write(`${scenario}: ${tools.length} tools ${warnings.join('; ')}\n`)
const context = process.env.MCP_CONFORMANCE_CONTEXT
const wanted = context === undefined ? undefined : JSON.parse(context).toolCalls
const calls: readonly { readonly name: string; readonly arguments: JsonObject }[] =
  wanted ??
  tools.map(({ nativeName, inputSchema }) => ({ name: nativeName, arguments: sampleObject(inputSchema) }))
for (const { name, arguments: input } of calls) {
  const outcome = await upstream
    .call(name, input, { elicit: async () => ({ action: 'accept', content: {} }) })
    .then(JSON.stringify, (error: unknown) => String(error))
  process.stderr.write(`${name}: ${outcome}\n`)
}
await upstream.source.close()
