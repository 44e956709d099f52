import { isJsonObject, type JsonObject } from '#kernel/base/json'
import type { Catalog } from '#kernel/tool/catalog'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import type { CallMethod } from '#protocols/mcp/call-params'
import { type Answer, errorAnswer, resultAnswer } from '#protocols/mcp/codec-message'
import type { McpExchange, McpFeature, McpServices } from '#protocols/mcp/exchange'
import { listMethod } from '#protocols/mcp/lists'
import type { ResultEnvelopes } from '#protocols/mcp/reply'
import type { ToolCalls } from '#protocols/mcp/tool-calls'
import { ALL_REVISIONS, type Revision } from '#protocols/mcp/wire'
import { type EntryTables, listedEntry, type ServedEntry } from './entry-tables.ts'

/*
 * Prompts (`prompts/list`, `prompts/get`: MCP-110 to MCP-112) and `completion/complete`, which suggests values for an argument of
 * a prompt or of a resource template (MCP-117). `methods.ts` lists both features.
 * Invariant: getting a prompt is a durable call of its entry, with the same limits, credentials and journal as a tool call. To both
 * features an entry that the caller may not see is unknown.
 */

export function promptFeature(
  services: McpServices,
  envelopes: ResultEnvelopes,
  { calls, tables }: { readonly calls: ToolCalls; readonly tables: EntryTables },
): McpFeature {
  const get: CallMethod = {
    noun: 'prompt',
    resolve: (params, catalog) => resolvePrompt(params, catalog, tables),
  }
  const prompts = {
    member: 'prompts',
    itemsOf: (catalog: Catalog, revision: Revision) =>
      [...tables.of(catalog, 'prompt').values()].map((served) =>
        listedEntry(served, { name: served.name }, revision),
      ),
  } as const
  return {
    capabilities: { prompts: { listChanged: true } },
    methods: [
      ['prompts/list', ALL_REVISIONS, listMethod(services, envelopes, prompts)],
      ['prompts/get', ALL_REVISIONS, (params, exchange) => calls.call(get, params, exchange)],
    ],
  }
}

function resolvePrompt({ name, arguments: input = {} }: JsonObject, catalog: Catalog, tables: EntryTables) {
  if (typeof name !== 'string') return 'params.name must be the name of a prompt.'
  if (!isJsonObject(input)) return 'params.arguments must be an object of strings.'
  return { name, input, served: tables.of(catalog, 'prompt').get(name) }
}

const NO_COMPLETION = '"completion":{"values":[],"total":0,"hasMore":false}'

export function completionFeature(
  { gateway, log }: McpServices,
  envelopes: ResultEnvelopes,
  { calls, tables }: { readonly calls: ToolCalls; readonly tables: EntryTables },
): McpFeature {
  const complete = async (params: JsonObject, exchange: McpExchange): Promise<Answer> => {
    const { id, principal, revision } = exchange
    const catalog = gateway.catalogFor(principal)
    const about = findEntry(params.ref, catalog, tables)
    if (typeof about === 'string') return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message: about })
    if (about.entry.complete !== undefined) return await completeOwn(about, params, exchange)
    const completions = tables.ofSameSource(catalog, 'completions', about.tool)
    if (completions === undefined) return resultAnswer(id, envelopes.of(revision).complete(NO_COMPLETION))
    const { argument, context } = params
    const input = {
      ref: nativeRef(about),
      ...(argument === undefined ? {} : { argument }),
      ...(context === undefined ? {} : { context }),
    }
    const name = completions.name
    const method = { noun: 'completion', resolve: () => ({ name, input, served: completions }) } as const
    return await calls.call(method, params, exchange)
  }
  /** An entry written as code completes its arguments itself: no call is made and nothing is recorded (MCP-133). */
  const completeOwn = async (
    { name, entry }: ServedEntry,
    params: JsonObject,
    { id, revision }: McpExchange,
  ): Promise<Answer> => {
    const { argument, context } = params
    const asked = isJsonObject(argument) ? argument : {}
    if (typeof asked.name !== 'string' || typeof asked.value !== 'string') {
      const message = 'params.argument must have the name of an argument and the value so far.'
      return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message })
    }
    const others = textsIn(isJsonObject(context) ? context.arguments : undefined)
    try {
      const values = await withDeadline(entry.complete?.(asked.name, asked.value, others))
      if (values !== undefined)
        return resultAnswer(id, envelopes.of(revision).complete(`"completion":${completionOf(values)}`))
      const message = `${name} has no argument "${asked.name}".`
      return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message })
    } catch (err) {
      log.error({ err, entry: name, argument: asked.name }, 'a completion failed')
      const message = `The values for "${asked.name}" could not be found. The server's log says why.`
      return errorAnswer(id, { code: JSON_RPC_CODES.internal, message })
    }
  }
  return {
    capabilities: { completions: {} },
    methods: [
      [
        'completion/complete',
        ALL_REVISIONS,
        (params, exchange) => complete(isJsonObject(params) ? params : {}, exchange),
      ],
    ],
  }
}

const COMPLETION_MS = 10_000
/** MCP allows no more values in one answer. */
const MAX_VALUES = 100

async function withDeadline<Value>(answer: Promise<Value> | undefined): Promise<Value | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer after ${COMPLETION_MS} ms`)), COMPLETION_MS)
  })
  try {
    return await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
  }
}

function completionOf(values: readonly string[]): string {
  const shown = values.slice(0, MAX_VALUES)
  return JSON.stringify({ values: shown, total: values.length, hasMore: values.length > shown.length })
}

function textsIn(given: JsonObject[string] | undefined): Readonly<Record<string, string>> {
  const members = isJsonObject(given) ? Object.entries(given) : []
  return Object.fromEntries(
    members.flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
  )
}

/** The entry that a reference names, or an error text. */
function findEntry(
  ref: JsonObject[string] | undefined,
  catalog: Catalog,
  tables: EntryTables,
): ServedEntry | string {
  if (!isJsonObject(ref)) return 'params.ref must name a prompt or a resource template.'
  const { type, name, uri } = ref
  if (type === 'ref/prompt' && typeof name === 'string')
    return tables.of(catalog, 'prompt').get(name) ?? `Unknown prompt: ${name}`
  if (type === 'ref/resource' && typeof uri === 'string') {
    const templates = [...tables.of(catalog, 'template').values()]
    const found = templates.find(({ entry }) => entry.definition.uriTemplate === uri)
    return found ?? `Unknown resource template: ${uri}`
  }
  return 'params.ref must be { "type": "ref/prompt", "name" } or { "type": "ref/resource", "uri" }.'
}

/** The reference as the upstream knows it. */
function nativeRef({ entry: { kind, definition } }: ServedEntry): JsonObject {
  return kind === 'prompt'
    ? { type: 'ref/prompt', name: definition.name ?? '' }
    : { type: 'ref/resource', uri: definition.uriTemplate ?? '' }
}
