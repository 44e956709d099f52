import { shortHash } from '#kernel/base/hash'
import { compareVersions } from '#kernel/base/ids'
import { defined } from '#kernel/base/json'
import { factsOf, needsOf, writeFacts } from '#kernel/tool/facts'
import type { Tool } from '#kernel/tool/tool'
import {
  type AnyFallback,
  type ConvertedInput,
  type ConvertedOutput,
  fromJsonSchema,
  joinSentences,
  returnFromJsonSchema,
} from './codec-convert-from-json.ts'
import { SchemaConversionError, type SchemaLoss } from './codec-convert-shape.ts'
import {
  FACTS_EXTENSION,
  isFunctionName,
  OPENTOOL_VERSION,
  type OpenToolDocument,
  type OpenToolFunction,
  type OpenToolInfo,
  type OpenToolServer,
} from './codec-document.ts'

/*
 * Builds an OpenTool document from tools, and assigns legal function names.
 * Used by the OpenTool protocol, the CLI's `opentool` command and the admin API; exported to users.
 * Invariant: the document passes strict validation and has no `$ref`, and equal tools get equal names
 * (OTS-84).
 */

export interface DocumentOfOptions {
  readonly server?: OpenToolServer
  readonly anyFallback?: AnyFallback
}

/** A part of a tool's schema that an OpenTool function cannot express. */
export interface ToolLoss extends SchemaLoss {
  readonly toolId: string
  readonly side: 'input' | 'output'
}

export interface ToolsDocument {
  readonly document: OpenToolDocument
  /** Function name → tool, for dispatch. Skipped tools are absent. */
  readonly toolOf: ReadonlyMap<string, Tool>
  /** Tool id → function name. */
  readonly nameOf: ReadonlyMap<string, string>
  readonly losses: readonly ToolLoss[]
  /** Tools that OpenTool cannot describe; their losses state the reason. */
  readonly skipped: readonly Tool[]
}

/** Default return name for an output schema without a title. */
const DEFAULT_RETURN_NAME = 'result'

/** An OpenTool document of the newest version of each tool. It passes strict validation and has no `$ref`. */
export function documentOf(
  tools: readonly Tool[],
  info: OpenToolInfo,
  options: DocumentOfOptions = {},
): ToolsDocument {
  const newest = newestOfEach(tools)
  const names = assignNames(newest.map(({ parts, name }) => ({ key: parts.base, name })))
  const losses: ToolLoss[] = []
  const functions: OpenToolFunction[] = []
  const toolOf = new Map<string, Tool>()
  const skipped: Tool[] = []
  for (const tool of newest) {
    const name = names.nameOf.get(tool.parts.base) ?? tool.name
    const described = functionOf(tool, name, losses, options)
    if (described === undefined) skipped.push(tool)
    else {
      functions.push(described)
      toolOf.set(name, tool)
    }
  }
  const { server } = options
  return {
    document: defined({ opentool: OPENTOOL_VERSION, info, server, functions }),
    toolOf,
    nameOf: new Map([...toolOf].map(([name, { id }]) => [id, name])),
    losses,
    skipped,
  }
}

export function returnNameOf({ outputSchema }: Pick<Tool, 'outputSchema'>): string {
  const title = outputSchema?.title
  return typeof title === 'string' && isFunctionName(title) ? title : DEFAULT_RETURN_NAME
}

function newestOfEach(tools: readonly Tool[]): readonly Tool[] {
  return [...Map.groupBy(tools, ({ parts }) => parts.base).values()].map((versions) =>
    versions.reduce((best, tool) =>
      compareVersions(best.parts.version, tool.parts.version) < 0 ? tool : best,
    ),
  )
}

function functionOf(
  tool: Tool,
  name: string,
  losses: ToolLoss[],
  options: DocumentOfOptions,
): OpenToolFunction | undefined {
  const attempt = <Result extends { readonly losses: readonly SchemaLoss[] }>(
    side: ToolLoss['side'],
    convert: (tool: Tool, options: DocumentOfOptions) => Result,
  ): Result | undefined => {
    let found: readonly SchemaLoss[] = []
    try {
      const result = convert(tool, options)
      found = result.losses
      return result
    } catch (error) {
      // A tool that cannot be described does not affect the others (OTS-83).
      if (!(error instanceof SchemaConversionError)) throw error
      found = error.losses
      return undefined
    } finally {
      for (const loss of found) losses.push({ toolId: tool.id, side, ...loss })
    }
  }
  const input = attempt('input', inputOf)
  const output = attempt('output', outputOf)
  if (input === undefined || output === undefined) return undefined
  return {
    name,
    description: [tool.description, input.description ?? '', ...warningsOf(tool)].reduce(joinSentences),
    parameters: input.parameters,
    ...(output.return === undefined ? {} : { return: output.return }),
    [FACTS_EXTENSION]: writeFacts(tool),
  }
}

/** Sentences for the description, the only member that models read: effects, approvals and requirements. */
function warningsOf(tool: Tool): readonly string[] {
  const { approval, safetyTier } = factsOf(tool)
  const { authorization, secrets, userId } = needsOf(tool)
  const needs = [
    ...authorization.map(({ id }) => `an authorization from ${id}`),
    ...secrets.map((id) => `the secret ${id}`),
    ...(userId === false ? [] : ['a user id']),
  ]
  return [
    ...(safetyTier === 'exec' ? ['Runs a program on the server.'] : []),
    ...(approval === 'always' ? ['A person has to approve each call.'] : []),
    ...(approval === 'conditional' ? ['A person may have to approve the call.'] : []),
    ...(needs.length === 0 ? [] : [`Needs ${needs.join(' and ')}.`]),
  ]
}

/** The tool's own description replaces title and description of its input. */
function inputOf({ inputSchema }: Tool, { anyFallback = 'object' }: DocumentOfOptions): ConvertedInput {
  const { title, description, ...schema } = inputSchema
  if (Object.keys(schema).length === 0) return { parameters: [], losses: [] }
  return fromJsonSchema(schema, { mode: 'lossy', anyFallback })
}

function outputOf(
  tool: Tool,
  { anyFallback = 'object' }: DocumentOfOptions,
): Partial<ConvertedOutput> & Pick<ConvertedOutput, 'losses'> {
  if (tool.outputSchema === null) return { losses: [] }
  const name = returnNameOf(tool)
  const { title, ...rest } = tool.outputSchema
  const schema = title === name ? rest : tool.outputSchema
  return returnFromJsonSchema(schema, { mode: 'lossy', anyFallback, name })
}

/** A desired name; `key` distinguishes entries that want the same name. */
export interface WantedName {
  readonly key: string
  readonly name: string
}

export interface NameMap {
  readonly nameOf: ReadonlyMap<string, string>
  /** Function name → key, for dispatch. */
  readonly keyByName: ReadonlyMap<string, string>
}

const MAX_LENGTH = 64

/** Assigns a legal name to each entry: names that are already legal have priority. Keys are distinct. */
export function assignNames(wanted: readonly WantedName[]): NameMap {
  const keyByName = new Map<string, string>()
  const nameOf = new Map<string, string>()
  const assign = (key: string, name: string) => {
    keyByName.set(name, key)
    nameOf.set(key, name)
  }
  const others = wanted.filter(({ key, name }) => {
    if (!isFunctionName(name) || keyByName.has(name)) return true
    assign(key, name)
    return false
  })
  for (const { key, name } of others) assign(key, freeName(key, name, keyByName))
  // Names are returned in the order of the input, not in the order of assignment.
  return { keyByName, nameOf: new Map(wanted.map(({ key }) => [key, nameOf.get(key) ?? ''])) }
}

/** A legal name for a single entry: `get.weather` → `get_weather`. */
export function legalName(original: string): string {
  return freeName(original, original, new Map())
}

function freeName(key: string, wanted: string, taken: ReadonlyMap<string, string>): string {
  const legal = wanted.replaceAll(/[^A-Za-z0-9_-]/gu, '_') || '_'
  if (legal.length <= MAX_LENGTH && !taken.has(legal)) return legal
  for (let attempt = 0; ; attempt += 1) {
    const digest = shortHash(attempt === 0 ? key : `${key}\n${attempt}`)
    const name = `${legal.slice(0, MAX_LENGTH - digest.length - 1)}_${digest}`
    if (!taken.has(name)) return name
  }
}
