/**
 * The client under test of the official client suite: our MCP source, which lists and calls the offered tools.
 * The suite starts it with the URL of its server; scenario and revision are environment variables.
 */
import { isToolError } from '#kernel/base/errors'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Secret } from '#kernel/base/secret'
import { type OpenedMcp, openMcp } from '../sources/open-mcp.ts'
import { tokenFor } from './mcp-client-consent.ts'

const url = process.argv.at(-1) ?? ''
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? ''
const given = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}')
const revision = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION === '2026-07-28' ? 'auto' : 'legacy'
const MAX_CONSENTS = 3

/** A value that is valid for the schema, for tools whose arguments do not matter. */
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

/** Lists the tools, and calls each once or as the scenario requires. */
async function use(upstream: OpenedMcp, token: Secret | undefined): Promise<void> {
  const { tools } = await upstream.discover()
  const schemas = new Map(tools.map(({ nativeName, inputSchema }) => [nativeName, inputSchema]))
  const reported: readonly { readonly name: string; readonly arguments: JsonObject }[] | undefined =
    given.toolCalls
  const calls =
    reported ??
    tools.map(({ nativeName, inputSchema }) => ({ name: nativeName, arguments: sampleObject(inputSchema) }))
  for (const { name, arguments: input } of calls) {
    const schema = schemas.get('json_schema_2020_12_tool')
    const echoed = name === 'json_schema_echo' && schema !== undefined ? { ...input, schema } : input
    try {
      await upstream.call(name, echoed, {
        elicit: async () => ({ action: 'accept', content: {} }),
        ...(token === undefined ? {} : { token: () => token }),
      })
    } catch (error) {
      if (neededScope(error) !== undefined) throw error
      process.stderr.write(`${name}: ${String(error)}\n`)
    }
  }
}

/** The scope that a refused call needs; an empty string when only the token was refused. */
function neededScope(error: unknown): string | undefined {
  const text = isToolError(error) ? `${error.developerMessage ?? ''}` : ''
  return text.startsWith('HTTP 401') ? '' : /needs the scope "([^"]*)"/.exec(text)?.[1]
}

async function useWithToken(): Promise<void> {
  let scopes: readonly string[] = []
  for (let round = 0; round < MAX_CONSENTS; round += 1) {
    const token = await tokenFor(url, scenario, given, scopes)
    const options = { url, revision, authorization: { provider: 'up' } }
    const upstream = openMcp(options, { services: { listingToken: async () => token } })
    try {
      return await use(upstream, token)
    } catch (error) {
      const more = neededScope(error)
      if (more === undefined) throw error
      scopes = [...scopes, ...more.split(' ').filter((scope) => scope !== '')]
    } finally {
      await upstream.source.close()
    }
  }
  throw new Error('no scope is enough')
}

if (scenario.startsWith('auth/')) await useWithToken()
else {
  const upstream = openMcp({ url, revision })
  await use(upstream, undefined)
  await upstream.source.close()
}
