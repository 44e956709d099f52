import { defined, JSON_BOUNDS, type JsonObject, type JsonValue, tooMuchJson } from '#kernel/base/json'
import {
  CONTENT_BLOCKS_SCHEMA,
  type PolicyDefinition,
  type ShownHints,
  type ToolRequirements,
} from '#kernel/tool/tool'
import { encodeHeaderValue } from '#protocols/mcp/codec-message'
import { isNewest, unknownDialect, upgradeSchema } from '#schema/upgrade'
import { policyOf, writtenPolicy } from '#sources/common/options'
import type { OfferedTool, ToolHints } from '#sources/kit/source'
import { isWireArray, isWireObject, textOf } from './connection.ts'
import type { McpOptions } from './options.ts'
import type { Endpoint } from './upstream.ts'

/**
 * Converts the tools that an MCP server lists to offered tools, and reads and writes the arguments that 2026-07-28 repeats in
 * headers. Discovery, calls and the source use it.
 * Invariant: annotations of the server affect the policy only if the operator trusts them (OWP-33).
 */

const MAX_NAME_LENGTH = 256
const MAX_DEFINITION_SIZE = 1_048_576
/** Comparing, checking and pinning a definition each block the event loop, so definitions must be small. */
const DEFINITION_BOUNDS = { ...JSON_BOUNDS, maxValues: 5_000 }

/** The member of a binding that marks a tool that runs only as a task. */
const TASK_BINDING = { task: 'required' } as const
/** Default time limit of tools that run only as a task. */
const TASK_TIMEOUT_MS = 3_600_000

type ReadTool =
  | { readonly ok: true; readonly tool: OfferedTool }
  | { readonly ok: false; readonly problem: string }

/** Reads one tool of `tools/list`; its annotations count only if the operator trusts them (MCP-57, OWP-33). */
export function readTool(written: JsonObject, options: McpOptions, endpoint: Endpoint): ReadTool {
  const name = textOf(written.name)
  if (name === undefined || name === '' || name.length > MAX_NAME_LENGTH || name.includes('\0'))
    return { ok: false, problem: 'a tool without a usable name is left out' }
  const skip = (why: string): ReadTool => ({ ok: false, problem: `"${name}" is left out: ${why}` })
  const text = JSON.stringify(written)
  if (text.length > MAX_DEFINITION_SIZE) return skip('its definition is larger than 1 MiB')
  const problem = tooMuchJson(Buffer.from(text), DEFINITION_BOUNDS)
  if (problem !== undefined) return skip(`its definition ${problem}`)
  const { inputSchema, outputSchema, execution } = written
  if (!isWireObject(inputSchema) || inputSchema.type !== 'object')
    return skip('its inputSchema does not describe an object')
  if (outputSchema !== undefined && !isWireObject(outputSchema))
    return skip('its outputSchema is not a schema')
  const isTask = isWireObject(execution) && execution.taskSupport === 'required'
  const headers = readHeaderParams(inputSchema)
  if (!headers.ok) return skip(headers.problem)
  for (const schema of [headers.schema, outputSchema ?? {}]) {
    const dialect = unknownDialect(schema)
    if (dialect !== undefined) return skip(`its schema is in an unknown dialect: "${dialect}"`)
  }
  // Servers of the first revisions have the title in the annotations. It is only a text, so it needs no trust.
  const title = textOf(written.title) || annotatedTitle(written.annotations)
  const requirements = requirementsOf(options)
  const passedOn = passedOnOf(written)
  const hints = options.trust === 'annotations' ? hintsOf(written.annotations) : undefined
  return {
    ok: true,
    tool: {
      nativeName: name,
      ...(title === undefined || title === '' ? {} : { title }),
      description: textOf(written.description) || title || name,
      inputSchema: upgraded(headers.schema),
      outputSchema: upgraded(outputSchema ?? CONTENT_BLOCKS_SCHEMA),
      ...(requirements === undefined ? {} : { requirements }),
      policy: mcpPolicy({ nativeName: name, hints, binding: isTask ? TASK_BINDING : {} }, options),
      ...(hints === undefined ? {} : { hints }),
      binding: {
        endpoint: endpoint.pinned,
        isStructured: outputSchema !== undefined,
        headers: headers.params.map(({ header, path }) => ({ header, path: [...path] })),
        ...(options.authorization === undefined ? {} : { authorization: options.authorization.provider }),
        secretHeaders: options.secretHeaders,
        ...(isTask ? TASK_BINDING : {}),
      },
      ...(passedOn === undefined ? {} : { passedOn }),
      ...(isForAppsOnly(passedOn) ? { entry: { kind: 'appTool', definition: {} } } : {}),
    },
  }
}

/** Members of `_meta` that concern only the exchange with the server (MCP §1.3), and Collet's own names. */
const NOT_PASSED_ON = /^(?:collet\/|[^./]+\.(?:mcp|modelcontextprotocol)(?:\.[^/]*)?\/)/

/** The members of `_meta` that callers get; `undefined` if there are none. */
export function passedOnMeta(meta: JsonValue | undefined): JsonObject | undefined {
  const members = isWireObject(meta) ? Object.entries(meta).filter(([name]) => !NOT_PASSED_ON.test(name)) : []
  return members.length === 0 ? undefined : Object.fromEntries(members)
}

/** Members of a definition that MCP callers get unchanged (MCP-145). */
function passedOnOf({ icons, _meta }: JsonObject): JsonObject | undefined {
  const found = defined({ icons: isWireArray(icons) ? icons : undefined, _meta: passedOnMeta(_meta) })
  return Object.keys(found).length === 0 ? undefined : found
}

/** True for a tool of MCP Apps whose visibility does not include the model: it is only for the server's own pages (MCP-147). */
function isForAppsOnly(passedOn: JsonObject | undefined): boolean {
  const ui = isWireObject(passedOn?._meta) ? passedOn._meta.ui : undefined
  const visibility = isWireObject(ui) ? ui.visibility : undefined
  return isWireArray(visibility) && !visibility.includes('model')
}

function annotatedTitle(annotations: JsonValue | undefined): string | undefined {
  return isWireObject(annotations) ? textOf(annotations.title) : undefined
}

/** Upgrades a schema to the newest dialect; one that is already in it stays unchanged (MCP-54). */
function upgraded(schema: JsonObject): JsonObject {
  return isNewest(schema) ? schema : upgradeSchema(schema)
}

/** Contradictory annotations (read-only and destructive) are ignored. */
function hintsOf(annotations: JsonValue | undefined): ToolHints {
  const { readOnlyHint, destructiveHint, idempotentHint, openWorldHint } = isWireObject(annotations)
    ? annotations
    : {}
  return {
    readOnly: readOnlyHint === true && destructiveHint !== true,
    idempotent: idempotentHint === true,
    ...(destructiveHint === false ? { additive: true } : {}),
    ...(openWorldHint === false ? { closedWorld: true } : {}),
  }
}

/** `write` by default (OWP-33). The server's own traffic cannot be guarded (OWP-37). The operator's policy overrides trusted hints. */
export function mcpPolicy(
  {
    nativeName,
    hints,
    binding,
  }: Pick<OfferedTool, 'nativeName' | 'binding'> & { readonly hints?: ToolHints | undefined },
  options: McpOptions,
): PolicyDefinition {
  const trusted = options.trust === 'annotations' ? hints : undefined
  return policyOf(nativeName, options, {
    safetyTier: trusted?.readOnly === true ? 'read' : 'write',
    replay: trusted?.idempotent === true ? 'idempotent' : 'non-deterministic',
    egress: 'host-mediated',
    ...(binding.task === 'required' ? { timeoutMs: TASK_TIMEOUT_MS } : {}),
  })
}

/** The trusted hints that MCP clients see, except where the operator's policy sets the tier or the egress. */
export function mcpShownHints({ nativeName, hints }: OfferedTool, options: McpOptions): ShownHints {
  if (options.trust !== 'annotations') return {}
  const { safetyTier, egress } = writtenPolicy(nativeName, options)
  return {
    ...(hints?.additive === true && safetyTier === undefined ? { additive: true } : {}),
    ...(hints?.closedWorld === true && egress === undefined ? { closedWorld: true } : {}),
  }
}

/** The credentials that callers need: a consent in the broker, secrets in the vault. Tokens for this server are never passed on (OWP-85). */
export function requirementsOf({ authorization, secretHeaders }: McpOptions): ToolRequirements | undefined {
  const ids = [...new Set(Object.values(secretHeaders))]
  if (authorization === undefined && ids.length === 0) return undefined
  return {
    ...(authorization === undefined
      ? {}
      : { authorization: [{ id: authorization.provider, oauth2: { scopes: authorization.scopes } }] }),
    ...(ids.length === 0 ? {} : { secrets: ids.map((id) => ({ id })) }),
  }
}

/** The server's schemas in the newest dialect, with the header marks restored (MCP-48, MCP-172). */
export function mcpSchemas({ inputSchema, outputSchema, binding }: OfferedTool) {
  const headers = isWireArray(binding.headers) ? binding.headers.filter(isWireObject) : []
  const input = headers.reduce((schema, { header, path }) => {
    const steps = isWireArray(path) ? path.map(String) : []
    return typeof header === 'string' ? marked(schema, steps, header) : schema
  }, inputSchema)
  return { input, output: outputSchema }
}

function marked(schema: JsonObject, [name, ...rest]: readonly string[], header: string): JsonObject {
  if (name === undefined) return { ...schema, [MARK]: header }
  const { properties } = schema
  const property = isWireObject(properties) ? properties[name] : undefined
  if (!isWireObject(properties) || !isWireObject(property)) return schema
  return { ...schema, properties: { ...properties, [name]: marked(property, rest, header) } }
}

/** An argument that 2026-07-28 repeats in a header of the request (MCP-48). */
export interface HeaderParam {
  readonly header: string
  readonly path: readonly string[]
}

type HeaderParams =
  | { readonly ok: true; readonly params: readonly HeaderParam[]; readonly schema: JsonObject }
  | { readonly ok: false; readonly problem: string }

const MARK = 'x-mcp-header'
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const TYPES: ReadonlySet<JsonValue | undefined> = new Set(['string', 'integer', 'boolean'])
const MAX_DEPTH = 64

/** Finds the arguments that are repeated in headers, and removes the marks. A misplaced mark makes the tool invalid. */
export function readHeaderParams(schema: JsonObject): HeaderParams {
  const params: HeaderParam[] = []
  try {
    const stripped = strip(schema, [], params)
    const names = params.map(({ header }) => header.toLowerCase())
    const twice = names.find((name, index) => names.indexOf(name) !== index)
    if (twice !== undefined) return { ok: false, problem: `two arguments have the header "${twice}"` }
    return { ok: true, params, schema: stripped }
  } catch (error) {
    if (error instanceof BadMark) return { ok: false, problem: error.message }
    throw error
  }
}

class BadMark extends Error {}

/** Follows only `properties`, as the standard does; a mark elsewhere is an error. */
function strip(schema: JsonObject, path: readonly string[], params: HeaderParam[]): JsonObject {
  if (!hasMark(schema, 0)) return schema
  const { [MARK]: mark, properties, ...rest } = schema
  if (mark !== undefined) params.push(readMark(mark, rest, path))
  for (const [name, value] of Object.entries(rest))
    if (hasMark(value, 0))
      throw new BadMark(`${MARK} is below "${name}", but only nested properties may have it`)
  if (!isWireObject(properties)) return rest
  const stripped = Object.entries(properties).map(([name, value]): [string, JsonValue] => [
    name,
    isWireObject(value) ? strip(value, [...path, name], params) : value,
  ])
  return { ...rest, properties: Object.fromEntries(stripped) }
}

function readMark(mark: JsonValue, schema: JsonObject, path: readonly string[]): HeaderParam {
  const where = path.length === 0 ? 'the root' : path.join('.')
  if (path.length === 0 || typeof mark !== 'string' || !TOKEN.test(mark))
    throw new BadMark(`${MARK} of ${where} is not the name of a header`)
  if (!TYPES.has(schema.type))
    throw new BadMark(`${MARK} of ${where} is not on a string, an integer or a boolean`)
  return { header: mark, path }
}

function hasMark(value: JsonValue | undefined, depth: number): boolean {
  if (depth > MAX_DEPTH) return false
  if (isWireArray(value)) return value.some((item) => hasMark(item, depth + 1))
  if (!isWireObject(value)) return false
  return MARK in value || Object.values(value).some((member) => hasMark(member, depth + 1))
}

export function headersFor(
  params: readonly HeaderParam[],
  input: JsonObject,
): Readonly<Record<string, string>> | undefined {
  const headers = params.flatMap(({ header, path }): [string, string][] => {
    const value = valueAt(input, path)
    const isPlain = typeof value === 'string' || typeof value === 'boolean' || Number.isSafeInteger(value)
    return isPlain ? [[`Mcp-Param-${header}`, encodeHeaderValue(String(value))]] : []
  })
  return headers.length === 0 ? undefined : Object.fromEntries(headers)
}

function valueAt(input: JsonObject, path: readonly string[]): JsonValue | undefined {
  let value: JsonValue | undefined = input
  for (const name of path) value = isWireObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
  return value
}
