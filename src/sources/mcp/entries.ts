import { fault, isToolError } from '#kernel/base/errors'
import type { EntryKind } from '#kernel/base/ids'
import { JSON_BOUNDS, type JsonObject, tooMuchJson } from '#kernel/base/json'
import { type PolicyDefinition, type ShownContent, ShownValue } from '#kernel/tool/tool'
import { hasSkills, SKILL_SCHEME } from '#protocols/mcp/codec-skill'
import { writtenPolicy } from '#sources/common/options'
import type { Invocation, OfferedTool } from '#sources/kit/source'
import { isWireArray, isWireObject, type McpConnection, textOf } from './connection.ts'
import { RpcError } from './errors.ts'
import type { McpOptions } from './options.ts'
import { requirementsOf } from './read-tool.ts'
import { SKILL_METHODS, skillRequest, unknownFile, usableSkills } from './skills.ts'
import type { Endpoint } from './upstream.ts'

/**
 * The entries of an MCP server besides its tools: prompts, resource templates, resources, skills and completions. Discovery converts
 * them to offered definitions, and a call of one becomes the request of its method.
 * Invariant: an entry only reads, so no entry requires approval.
 */

/** The method that a call of an entry of each kind sends by default. */
const METHODS = {
  prompt: 'prompts/get',
  template: 'resources/read',
  resources: 'resources/list',
  completions: 'completion/complete',
  skill: 'skills/get',
} as const satisfies Partial<Record<EntryKind, string>>

type McpEntryKind = keyof typeof METHODS

/** Methods that the entry `resources` of a source accepts. */
const RESOURCE_METHODS = [
  'resources/list',
  'resources/read',
  'resources/subscribe',
  'resources/unsubscribe',
] as const

const MAX_DEFINITION_SIZE = 1_048_576
const DEFINITION_BOUNDS = { ...JSON_BOUNDS, maxValues: 5_000 }
const MAX_NAME_LENGTH = 256

/** The lists that discovery reads besides the tools. */
export interface EntryLists {
  readonly prompts: readonly JsonObject[]
  readonly resourceTemplates: readonly JsonObject[]
  readonly skills: readonly JsonObject[]
}

interface EntrySetting {
  readonly options: McpOptions
  readonly endpoint: Endpoint
}

export function readEntries(
  { server: { capabilities } }: Pick<McpConnection, 'server'>,
  lists: EntryLists,
  setting: EntrySetting,
  warnings: string[],
): readonly OfferedTool[] {
  const offered: OfferedTool[] = []
  for (const prompt of lists.prompts)
    add(offered, warnings, prompt, 'name', (name) => promptOf(name, prompt, setting))
  const servesSkills = hasSkills(capabilities)
  for (const template of lists.resourceTemplates.filter((found) => !servesSkills || !isSkillTemplate(found)))
    add(offered, warnings, template, 'uriTemplate', (uri) => templateOf(uri, template, setting))
  if (capabilities.resources !== undefined)
    offered.push(
      entryOf('resources', 'resources', setting, {
        description: 'Lists and reads the resources of the server.',
        inputSchema: RESOURCES_INPUT,
        ...(servesSkills ? { definition: { skills: true } } : {}),
      }),
    )
  for (const [nativeName, skill] of usableSkills(lists.skills, warnings))
    add(offered, warnings, skill, 'uri', (uri) => skillOf(nativeName, uri, skill, setting))
  if (capabilities.completions !== undefined)
    offered.push(
      entryOf('completions', 'completions', setting, {
        description: 'Completes arguments of prompts and resource templates.',
        inputSchema: COMPLETIONS_INPUT,
      }),
    )
  return offered
}

function add(
  offered: OfferedTool[],
  warnings: string[],
  definition: JsonObject,
  idMember: 'name' | 'uriTemplate' | 'uri',
  read: (id: string) => OfferedTool,
): void {
  const id = textOf(definition[idMember])
  if (id === undefined || id === '' || id.length > MAX_NAME_LENGTH || id.includes('\0')) {
    warnings.push(`an entry without a usable ${idMember} is left out`)
    return
  }
  const text = JSON.stringify(definition)
  const problem =
    text.length > MAX_DEFINITION_SIZE
      ? 'is larger than 1 MiB'
      : tooMuchJson(Buffer.from(text), DEFINITION_BOUNDS)
  if (problem === undefined) offered.push(read(id))
  else warnings.push(`"${id}" is left out: its definition ${problem}`)
}

function promptOf(name: string, definition: JsonObject, setting: EntrySetting): OfferedTool {
  const args = isWireArray(definition.arguments) ? definition.arguments.filter(isWireObject) : []
  const properties = args.map((argument): [string, JsonObject] => {
    const description = textOf(argument.description)
    return [
      textOf(argument.name) ?? '',
      { type: 'string', ...(description === undefined ? {} : { description }) },
    ]
  })
  return entryOf('prompt', `prompt/${name}`, setting, {
    ...textsOf(definition, name),
    inputSchema: {
      type: 'object',
      properties: Object.fromEntries(properties),
      required: args.flatMap(({ name: argument, required }) =>
        required === true && typeof argument === 'string' ? [argument] : [],
      ),
      additionalProperties: { type: 'string' },
    },
    definition,
    name,
  })
}

function templateOf(uriTemplate: string, definition: JsonObject, setting: EntrySetting): OfferedTool {
  return entryOf('template', `template/${uriTemplate}`, setting, {
    ...textsOf(definition, uriTemplate),
    inputSchema: URI_INPUT,
    definition,
  })
}

/** Templates for skill files are not offered, because these files are read through their skills, which are pinned. */
function isSkillTemplate({ uriTemplate }: JsonObject): boolean {
  return typeof uriTemplate === 'string' && uriTemplate.startsWith(SKILL_SCHEME)
}

function skillOf(
  nativeName: string,
  uri: string,
  definition: JsonObject,
  setting: EntrySetting,
): OfferedTool {
  const frontmatter = isWireObject(definition.frontmatter) ? definition.frontmatter : {}
  return entryOf('skill', nativeName, setting, {
    description: textOf(frontmatter.description) ?? nativeName,
    inputSchema: SKILL_INPUT,
    definition,
    uri,
  })
}

function textsOf(definition: JsonObject, name: string) {
  const title = textOf(definition.title)
  return {
    ...(title === undefined || title === '' ? {} : { title }),
    description: textOf(definition.description) || title || name,
  }
}

const URI_INPUT: JsonObject = {
  type: 'object',
  properties: { uri: { type: 'string', description: 'Address of the resource.' } },
  required: ['uri'],
}

const RESOURCES_INPUT: JsonObject = {
  type: 'object',
  properties: {
    method: { enum: [...RESOURCE_METHODS], description: 'What to do.' },
    uri: { type: 'string', description: 'Address of the resource; not for resources/list.' },
    cursor: { type: 'string', description: 'Where the next page of a list begins.' },
  },
  required: ['method'],
}

const SKILL_INPUT: JsonObject = {
  type: 'object',
  properties: {
    method: { enum: [...SKILL_METHODS], description: 'What to do.' },
    uri: {
      type: 'string',
      description: 'Address of a file or folder of the skill; by default its SKILL.md.',
    },
    cursor: { type: 'string', description: 'Where the next page of a folder begins.' },
  },
  required: ['method'],
}

const COMPLETIONS_INPUT: JsonObject = {
  type: 'object',
  properties: {
    ref: { type: 'object', description: 'The prompt or the template whose argument is completed.' },
    argument: { type: 'object', description: 'Name and beginning of the argument.' },
    context: { type: 'object', description: 'Arguments that are already complete.' },
  },
  required: ['ref', 'argument'],
}

interface EntryParts {
  readonly title?: string
  readonly description: string
  readonly inputSchema: JsonObject
  readonly definition?: JsonObject
  /** The upstream's name, if the request contains it. */
  readonly name?: string
  /** Address of a skill. */
  readonly uri?: string
}

function entryOf(
  kind: McpEntryKind,
  nativeName: string,
  setting: EntrySetting,
  parts: EntryParts,
): OfferedTool {
  const { options, endpoint } = setting
  const { definition = {}, name, uri, ...texts } = parts
  const requirements = requirementsOf(options)
  return {
    nativeName,
    ...texts,
    outputSchema: {},
    ...(requirements === undefined ? {} : { requirements }),
    policy: entryPolicy(nativeName, options),
    binding: {
      endpoint: endpoint.pinned,
      entry: kind,
      ...(name === undefined ? {} : { name }),
      ...(uri === undefined ? {} : { uri }),
      ...(options.authorization === undefined ? {} : { authorization: options.authorization.provider }),
      secretHeaders: options.secretHeaders,
    },
    entry: { kind, definition },
  }
}

/** Entries have the visibility, time limits and costs of the source's tools. The operator's settings on effects concern only tools. */
export function entryPolicy(nativeName: string, options: McpOptions): PolicyDefinition {
  const { scopes, tenants = options.tenants, timeoutMs, cost } = writtenPolicy(nativeName, options)
  return {
    safetyTier: 'read',
    replay: 'idempotent',
    egress: 'host-mediated',
    ...(scopes === undefined ? {} : { scopes }),
    ...(tenants === undefined ? {} : { tenants }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(cost === undefined ? {} : { cost }),
  }
}

/** The request that a call of an entry sends; `undefined` for a tool. */
export function entryRequest(
  invocation: Pick<Invocation, 'binding' | 'input' | 'accepted'>,
  { server: { capabilities } }: Pick<McpConnection, 'server'>,
): { readonly method: string; readonly params: JsonObject } | undefined {
  const { binding, input } = invocation
  switch (binding.entry) {
    case 'prompt':
      return { method: METHODS.prompt, params: { name: binding.name ?? '', arguments: input } }
    case 'template':
      return { method: METHODS.template, params: { uri: input.uri ?? '' } }
    case 'completions':
      return { method: METHODS.completions, params: input }
    case 'resources': {
      const { method, ...params } = input
      const uri = textOf(input.uri)
      if (uri?.startsWith(SKILL_SCHEME) === true && hasSkills(capabilities)) throw unknownFile(uri)
      return { method: String(method), params }
    }
    case 'skill':
      return skillRequest(invocation)
    default:
      return undefined
  }
}

/** The result of an entry's request without the members that concern only the exchange with the server. */
export function entryResult(
  { resultType: _resultType, _meta, ...value }: JsonObject,
  meta: ShownContent,
): ShownValue {
  return new ShownValue(value, meta)
}

/** Passes on the server's JSON-RPC error, because only `tools/call` has results that report errors. */
export function entryFailure(error: unknown): unknown {
  const cause = isToolError(error) ? error.cause : undefined
  return cause instanceof RpcError
    ? fault('tool_failed', cause.message, { errorNumber: cause.code, cause })
    : error
}
