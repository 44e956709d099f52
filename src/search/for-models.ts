import { cleanText, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { Family } from './families.ts'
import { firstSentence } from './tool-document.ts'

/**
 * The texts of the search for models: the three tools that replace the full list of tools, and the answer to a search. The
 * description of the search tool lists groups of tools, because models use a search only if they know what it covers.
 * Invariant: texts are bounded, and an unchanged catalog gives unchanged texts, so that prompt caches stay valid.
 */

export const SEARCH_TOOLS = 'search_tools'
export const DESCRIBE_TOOLS = 'describe_tools'
export const CALL_TOOL = 'call_tool'

export const MAX_DESCRIBED = 20
const MAX_FAMILIES_TEXT = 900
const MAX_PARAMETERS = 14
const MAX_QUOTED = 200

/** A tool as `tools/list` returns it. */
interface MetaTool {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: JsonObject
  readonly annotations: JsonObject
  readonly isCall: boolean
}

const READS: JsonObject = { readOnlyHint: true, openWorldHint: false }

/** What a caller can find. */
interface Searched {
  readonly count: number
  readonly families: readonly Family[]
}

export function metaTools({ count, families }: Searched): readonly MetaTool[] {
  return [
    {
      name: CALL_TOOL,
      title: 'Call a tool',
      description: `Calls a tool that ${SEARCH_TOOLS} found, or any other tool by its name. The result is that of the tool itself.`,
      inputSchema: objectOf(
        {
          name: { type: 'string', description: 'Name of the tool.' },
          arguments: { type: 'object', description: 'Parameters of the tool.', additionalProperties: true },
        },
        ['name'],
      ),
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
      isCall: true,
    },
    {
      name: DESCRIBE_TOOLS,
      title: 'Describe tools',
      description: `Shows the full description and the schemas of tools, if the line of ${SEARCH_TOOLS} is not enough to call them.`,
      inputSchema: objectOf(
        {
          names: {
            type: 'array',
            items: { type: 'string' },
            minItems: 1,
            maxItems: MAX_DESCRIBED,
            description: 'Names of the tools.',
          },
        },
        ['names'],
      ),
      annotations: READS,
      isCall: false,
    },
    {
      name: SEARCH_TOOLS,
      title: 'Search tools',
      description: [
        `Finds tools for a task. ${count} tools can be called here that are not in this list, so search before you say that something cannot be done.`,
        `There are tools of: ${listFamilies(families)}.`,
        `Then use ${CALL_TOOL}.`,
      ].join(' '),
      inputSchema: objectOf(
        {
          query: { type: 'string', description: 'The task in plain words, or the name of a tool.' },
          limit: { type: 'integer', minimum: 1, maximum: 50, description: 'How many tools. Default 10.' },
        },
        ['query'],
      ),
      annotations: READS,
      isCall: false,
    },
  ]
}

function objectOf(properties: JsonObject, required: readonly string[]): JsonObject {
  return { type: 'object', properties, required: [...required], additionalProperties: false }
}

/** As many groups as fit, largest first, and the number of the others. */
function listFamilies(families: readonly Family[]): string {
  const shown: string[] = []
  let length = 0
  for (const { name, count } of families) {
    const text = `${cleanText(name)} (${count})`
    length += text.length + 2
    if (length > MAX_FAMILIES_TEXT) break
    shown.push(text)
  }
  const left = families.length - shown.length
  return `${shown.join(', ')}${left === 0 ? '' : ` and ${left} more groups`}`
}

interface FoundTool {
  readonly title?: string | undefined
  readonly description: string
  readonly inputSchema: JsonObject
}

interface FoundByWords<Found> {
  readonly found: readonly { readonly tool: Found; readonly unavailable?: string | undefined }[]
  readonly families: readonly Family[]
}

/** The text for a name that no tool of the caller has. */
export function unknownToolText(name: string): string {
  return `There is no tool ${quoted(name)}. Find tools with ${SEARCH_TOOLS}.`
}

function quoted(text: string): string {
  return JSON.stringify(cleanText(text).slice(0, MAX_QUOTED).toWellFormed())
}

/** The answer of a search: one line for each tool, with its parameters as a signature. */
export function describeSearch<Found extends FoundTool>(
  query: string,
  { found, families }: FoundByWords<Found>,
  nameOf: (tool: Found) => string,
): string {
  if (found.length === 0)
    return `No tool fits ${quoted(query)}. There are tools of: ${listFamilies(families)}. Search again with other words.`
  const lines = found.map(({ tool, unavailable }) => {
    const purpose = cleanText(firstSentence(tool.description) || (tool.title ?? ''))
    const reason = unavailable === undefined ? '' : ` [Cannot be called now. ${unavailable}]`
    return `${nameOf(tool)}(${signatureOf(tool.inputSchema)}): ${purpose}${reason}`
  })
  return [`Tools for ${quoted(query)}, best first. Call one with ${CALL_TOOL}.`, ...lines].join('\n')
}

/** `owner: string, labels?: string[]`: required parameters first. */
function signatureOf(schema: JsonObject): string {
  const properties = isJsonObject(schema.properties) ? Object.entries(schema.properties) : []
  const list: readonly JsonValue[] = Array.isArray(schema.required) ? schema.required : []
  const required = new Set(list)
  const sorted = [
    ...properties.filter(([name]) => required.has(name)),
    ...properties.filter(([name]) => !required.has(name)),
  ]
  const shown = sorted
    .slice(0, MAX_PARAMETERS)
    .map(([name, member]) => `${cleanText(name)}${required.has(name) ? '' : '?'}: ${typeOf(member)}`)
  return [...shown, ...(sorted.length > MAX_PARAMETERS ? ['…'] : [])].join(', ')
}

const MAX_CHOICES = 6

function typeOf(member: JsonValue): string {
  if (!isJsonObject(member)) return 'any'
  const { type, enum: choices, items } = member
  if (Array.isArray(choices) && choices.length <= MAX_CHOICES)
    return choices.map((choice) => cleanText(JSON.stringify(choice))).join(' | ')
  if (type === 'array') return `${items === undefined ? 'any' : typeOf(items)}[]`
  return typeof type === 'string' ? type : 'any'
}
