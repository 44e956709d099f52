import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { readFacts, type ToolFacts } from '#core/tools/facts'
import { FACTS_MEMBER } from './wire.ts'

/** A tool as a client sees it, whatever dialect its server speaks. */
export interface RemoteTool {
  /** Opaque: send it back as it is (C-14). */
  readonly id: string
  /** Function name for models. */
  readonly name: string
  readonly description: string
  readonly version?: string
  /** JSON Schema of what a model may fill in; `{}` = no parameters. */
  readonly input: JsonObject
  /** JSON Schema of the value, `none` for tools without output, `any` when nothing is promised. */
  readonly output: JsonObject | 'none' | 'any'
  readonly requirements: RemoteRequirements
  /** Its third name, how dangerous it is and what a call waits for, where the server tells; those of this package do. */
  readonly facts?: ToolFacts
  /** Parameters the application fills in, left out of `input` (T-29). */
  readonly nonInferrable?: readonly string[]
}

export interface RemoteRequirements {
  readonly authorization: readonly RemoteAuthorization[]
  readonly secrets: readonly { readonly id: string }[]
  readonly userId: boolean
}

export interface RemoteAuthorization {
  readonly id: string
  /** OAuth 2 scopes, empty when none are named. */
  readonly scopes: readonly string[]
  /** The requirement as the server published it; unknown members are kept (OTC-41). */
  readonly definition: JsonObject
}

/** Reads any form of `GET /tools`; `undefined` when the body is no tool list (C-07, C-08). */
export function readToolList(body: JsonValue): readonly RemoteTool[] | undefined {
  const entries = listEntries(body)
  const told = isJsonObject(body) ? body[FACTS_MEMBER] : undefined
  return entries?.flatMap((entry) => {
    const tool = isJsonObject(entry) ? readTool(entry) : undefined
    if (tool === undefined) return []
    const facts = isJsonObject(told) && Object.hasOwn(told, tool.id) ? toldFacts(told[tool.id]) : undefined
    return facts === undefined ? [tool] : [{ ...tool, facts }]
  })
}

/** The words of this format for what every protocol of ours tells. */
function toldFacts(told: JsonValue | undefined): ToolFacts | undefined {
  if (!isJsonObject(told)) return undefined
  const { catalog_id, safety_tier, replay_policy, cost_hint, latency_hint, ...same } = told
  const renamed = {
    catalogId: catalog_id,
    safetyTier: safety_tier,
    replay: replay_policy,
    costHint: cost_hint,
    latencyHint: latency_hint,
  }
  return readFacts({ ...same, ...renamed })
}

function listEntries(body: JsonValue): readonly JsonValue[] | undefined {
  if (isArray(body)) return body
  if (!isJsonObject(body)) return undefined
  if (isArray(body.items)) return body.items
  return isArray(body.tools) ? body.tools : undefined
}

/** A definition in any dialect; only one without `id` and `name` is unusable (C-10 to C-14). */
function readTool(entry: JsonObject): RemoteTool | undefined {
  const toolkit = isJsonObject(entry.toolkit) ? entry.toolkit : {}
  const id = text(entry.id) ?? builtId(entry, toolkit)
  if (id === undefined) return undefined
  const version = text(entry.version) ?? text(toolkit.version) ?? versionInId(id)
  const declared = entry.input_schema ?? entry.inputSchema ?? entry.input
  const nonInferrable = hiddenParameters(declared) ?? hiddenParameters(entry.input) ?? []
  return {
    id,
    name: text(entry.name) ?? id,
    description: text(entry.description) ?? '',
    ...(version === undefined ? {} : { version }),
    input: without(nonInferrable, inputSchema(declared)),
    output: outputSchema(entry.output_schema),
    requirements: readRequirements(entry.requirements),
    ...(nonInferrable.length === 0 ? {} : { nonInferrable }),
  }
}

function builtId(entry: JsonObject, toolkit: JsonObject): string | undefined {
  const name = text(entry.name)
  if (name === undefined) return undefined
  const base = text(toolkit.name) === undefined ? name : `${toolkit.name}.${name}`
  const version = text(entry.version) ?? text(toolkit.version)
  return version === undefined ? base : `${base}@${version}`
}

function versionInId(id: string): string | undefined {
  const at = id.lastIndexOf('@')
  return at < 0 ? undefined : text(id.slice(at + 1))
}

/** Wrapped in `parameters` or plain (C-09); absent means no parameters (C-13). */
function inputSchema(declared: JsonValue | undefined): JsonObject {
  if (!isJsonObject(declared)) return {}
  const wrapped = declared.parameters !== undefined && !('type' in declared) && !('properties' in declared)
  if (!wrapped) return declared
  return isJsonObject(declared.parameters) ? declared.parameters : {}
}

/** `null` and `{"type":"null"}` are no output; unknown forms promise nothing (C-12). */
function outputSchema(declared: JsonValue | undefined): JsonObject | 'none' | 'any' {
  if (declared === null) return 'none'
  if (!isJsonObject(declared) || Object.keys(declared).length === 0) return 'any'
  return declared.type === 'null' ? 'none' : declared
}

function hiddenParameters(declared: JsonValue | undefined): readonly string[] | undefined {
  if (!isJsonObject(declared) || !isArray(declared.non_inferrable_parameters)) return undefined
  return texts(declared.non_inferrable_parameters)
}

/** A model never sees parameters it must not infer (T-29). */
function without(hidden: readonly string[], schema: JsonObject): JsonObject {
  if (hidden.length === 0) return schema
  const shown = ([name]: readonly [string, JsonValue]) => !hidden.includes(name)
  const { properties, required } = schema
  return {
    ...schema,
    ...(isJsonObject(properties)
      ? { properties: Object.fromEntries(Object.entries(properties).filter(shown)) }
      : {}),
    ...(isArray(required) ? { required: texts(required).filter((name) => !hidden.includes(name)) } : {}),
  }
}

/** Entries without an `id` cannot be answered and are passed over (C-29). */
function readRequirements(declared: JsonValue | undefined): RemoteRequirements {
  const members = isJsonObject(declared) ? declared : {}
  return {
    authorization: entriesWithId(members.authorization).map(([id, definition]) => ({
      id,
      scopes: isJsonObject(definition.oauth2) ? texts(definition.oauth2.scopes) : [],
      definition,
    })),
    secrets: entriesWithId(members.secrets).map(([id]) => ({ id })),
    userId: members.user_id === true,
  }
}

function entriesWithId(declared: JsonValue | undefined): readonly (readonly [string, JsonObject])[] {
  const entries = isArray(declared) ? declared : [declared ?? null]
  return entries.flatMap((entry) => {
    if (!isJsonObject(entry)) return []
    const id = text(entry.id)
    return id === undefined ? [] : [[id, entry] as const]
  })
}

function text(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

function texts(value: JsonValue | undefined): readonly string[] {
  return isArray(value) ? value.filter((item) => typeof item === 'string') : []
}

function isArray(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value)
}
