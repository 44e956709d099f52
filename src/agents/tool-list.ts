import { isJsonObject, type JsonObject } from '#kernel/base/json'
import { READ_RESULT, READ_RESULT_DESCRIPTION, READ_RESULT_INPUT } from '#protocols/mcp/results/read-result'
import type { Family } from '#search/families'
import { CALL_TOOL, DESCRIBE_TOOLS, metaTools, SEARCH_TOOLS } from '#search/for-models'
import type { EarlierCalls } from './call-keys.ts'
import type { Ask, CallScope, SourceTool } from './source.ts'
import { type FittedSchema, fitName, fitSchema, type SchemaLimits } from './tool-schema.ts'

/*
 * Makes the list of tools that a model gets: the tools of a source in the provider's form, and the tools that search
 * them and read long results. `toolset.ts` calls it. Invariant: names are unique, and every change of a definition is in the notes.
 */

export interface AgentOptions extends CallScope {
  /** Id of the conversation or run. Within one conversation, repeating a call for the same purpose returns its recorded outcome, in any process. */
  readonly conversation: string
  /** The tools to use, by id, name or function; default all. */
  readonly only?:
    | readonly string[]
    | ((tool: { readonly id: string; readonly name: string }) => boolean)
    | undefined
  /** `search`: three tools that find, describe and call all others. Default `list`. */
  readonly discovery?: 'list' | 'search' | undefined
  /** Names of tools that are listed besides those three, or that are not deferred. */
  readonly favourites?: readonly string[] | undefined
  /** Bytes of a result that the model gets at once; default: the tool's own limit, or 32 000. 0 = all. */
  readonly modelBytes?: number | undefined
  /** Returns how often a call is to be repeated on purpose: 1 for the first repetition. Default 0. */
  readonly again?: ((call: { readonly tool: string; readonly input: JsonObject }) => number) | undefined
  /**
   * Called when a person has agreed to a call through the library, to decide Collet's approval of the call, for example
   * `({ id = '' }) => gateway.approvals.approve(approver, id)`. Without it, people decide on the approval's page.
   */
  readonly approve?: ((ask: Ask) => Promise<unknown>) | undefined
  /** The result of `earlier()` for messages that were since removed from the history. */
  readonly earlier?: EarlierCalls | undefined
  /** Writes schemas in the provider's strict form if that can express them. Default false. */
  readonly strict?: boolean | undefined
}

/** A tool as a model sees it. */
export interface AgentTool {
  readonly name: string
  readonly description: string
  readonly schema: JsonObject
  readonly isStrict: boolean
  /** Whether a person may have to act before a call runs. */
  readonly mayAsk: boolean
  /** Whether it may be left out of the prompt until a search finds it. */
  readonly isDeferrable: boolean
  readonly hasEffects: boolean
}

/** Limits of a library or provider. */
export interface ProviderLimits extends Omit<SchemaLimits, 'strict'> {
  readonly provider: string
  readonly maxTools?: number
}

export interface Listed extends AgentTool {
  readonly target: SourceTool | 'search' | 'describe' | 'call' | 'read'
  readonly again?: string | undefined
}

type ListOptions = Omit<AgentOptions, 'conversation'>

export interface ToolList {
  /** The tools that the model sees. */
  readonly listed: readonly Listed[]
  /** The tools that it can call. */
  readonly all: readonly Listed[]
  readonly notes: readonly string[]
}

export function listTools(
  tools: readonly SourceTool[],
  options: ListOptions,
  limits: ProviderLimits,
): ToolList {
  const selected = tools.filter((tool) => isSelected(tool, options))
  const notes: string[] = []
  const taken = new Set<string>()
  const all = selected.map((tool) => listTool(tool, { options, limits, taken, notes }))
  const isSearched = options.discovery === 'search'
  const shown = all.filter((each) => !isSearched || isFavourite(each, options))
  const own = [...(isSearched ? searchTools(all) : []), ...readTools(all, options)].filter(
    ({ name }) => !taken.has(name),
  )
  const listed = [...own, ...shown].sort((left, right) => (left.name < right.name ? -1 : 1))
  const { maxTools = Number.POSITIVE_INFINITY, provider } = limits
  if (listed.length > maxTools)
    throw new RangeError(
      `${provider} accepts at most ${maxTools} tools, and there are ${listed.length}. Use { discovery: 'search' }, or select some with { only }.`,
    )
  return { listed, all: [...all, ...own], notes }
}

function isSelected({ id, base, name }: SourceTool, { only }: ListOptions): boolean {
  if (only === undefined) return true
  return typeof only === 'function'
    ? only({ id, name })
    : only.some((one) => one === id || one === base || one === name)
}

function isFavourite(
  { name, target }: Pick<Listed, 'name' | 'target'>,
  { favourites = [] }: ListOptions,
): boolean {
  return favourites.includes(name) || (typeof target !== 'string' && favourites.includes(target.base))
}

interface Listing {
  readonly options: ListOptions
  readonly limits: ProviderLimits
  readonly taken: Set<string>
  readonly notes: string[]
}

const AGAIN: JsonObject = {
  type: 'integer',
  minimum: 1,
  description: 'Only to repeat an effect on purpose: 1 for the first repetition, 2 for the second.',
}

function listTool(tool: SourceTool, { options, limits, taken, notes }: Listing): Listed {
  const name = fitName(tool.name, limits.nameLength, taken)
  taken.add(name)
  const fitted = fitSchema(tool.inputSchema, { ...limits, strict: options.strict === true })
  const again = tool.identity === undefined ? undefined : freeName(fitted.schema)
  const schema = again === undefined ? fitted.schema : withAgain(fitted, again)
  const changes = [...(name === tool.name ? [] : [`named ${name}`]), ...fitted.notes]
  if (changes.length > 0) notes.push(`${tool.id}: ${changes.join('; ')}.`)
  const isDeferrable = !isFavourite({ name, target: tool }, options)
  return {
    name,
    description: tool.description || (tool.title ?? name),
    schema,
    isStrict: fitted.isStrict,
    mayAsk: tool.mayAsk,
    isDeferrable,
    target: tool,
    again,
    hasEffects: tool.hasEffects,
  }
}

function freeName({ properties }: JsonObject): string {
  return isJsonObject(properties) && Object.hasOwn(properties, 'again') ? 'call_again' : 'again'
}

function withAgain({ schema, isStrict }: FittedSchema, name: string): JsonObject {
  const properties = isJsonObject(schema.properties) ? schema.properties : {}
  const required = Array.isArray(schema.required) ? schema.required : []
  const member = isStrict ? { ...AGAIN, type: ['integer', 'null'] } : AGAIN
  return {
    ...schema,
    properties: { ...properties, [name]: member },
    ...(isStrict ? { required: [...required, name] } : {}),
  }
}

function searchTools(all: readonly Listed[]): readonly Listed[] {
  const targets = { [SEARCH_TOOLS]: 'search', [DESCRIBE_TOOLS]: 'describe', [CALL_TOOL]: 'call' } as const
  return metaTools({ count: all.length, families: familiesIn(all) }).flatMap(
    ({ name, description, inputSchema }) => {
      const target = Object.entries(targets).find(([known]) => known === name)?.[1]
      return target === undefined ? [] : [ownTool(name, description, inputSchema, target)]
    },
  )
}

/** The tool that reads results, if any result can be too long for the model. */
function readTools(all: readonly Listed[], { modelBytes }: ListOptions): readonly Listed[] {
  const canShorten = all.some(({ target }) => {
    if (typeof target === 'string' || target.shown.outputSchema === null) return false
    return modelBytes !== 0 || target.shown.policy.project !== undefined
  })
  return canShorten ? [ownTool(READ_RESULT, READ_RESULT_DESCRIPTION, READ_RESULT_INPUT, 'read')] : []
}

function ownTool(
  name: string,
  description: string,
  schema: JsonObject,
  target: Exclude<Listed['target'], SourceTool>,
): Listed {
  return {
    name,
    description,
    schema,
    target,
    isStrict: false,
    mayAsk: false,
    isDeferrable: false,
    hasEffects: false,
  }
}

/** Groups of tools by the first part of their ids, the largest first. */
export function familiesIn(all: readonly Listed[]): readonly Family[] {
  const bases = all.flatMap(({ target }) => (typeof target === 'string' ? [] : [target.base]))
  const groups = Map.groupBy(bases, (base) => base.split('.')[0] ?? base)
  return [...groups]
    .map(([name, some]) => ({ name, count: some.length, examples: some.slice(0, 3) }))
    .sort((left, right) => right.count - left.count || (left.name < right.name ? -1 : 1))
}
