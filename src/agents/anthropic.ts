import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { type EarlierCalls, type HistoryEntry, type ShownCall, shownCalls } from './call-keys.ts'
import type { AgentSource, Ask } from './source.ts'
import type { AgentOptions } from './tool-list.ts'
import {
  type AgentResult,
  openToolset,
  type PendingCall,
  partsOf,
  type RunOptions,
  resultText,
  toJson,
} from './toolset.ts'

/*
 * The subpath `collet/anthropic`: tools for the Messages API, and the calls of its answers.
 * Invariant: it does not import the SDK; its types are compatible with those of the SDK.
 */

export type { AgentSource, Ask, EarlierCalls, PendingCall, RunOptions }

export interface AnthropicOptions extends AgentOptions {
  /** Marks tools with `defer_loading` and adds Anthropic's own search; `favourites` are always loaded. */
  readonly defer?: 'bm25' | 'regex' | undefined
}

export interface AnthropicTool {
  name: string
  description: string
  input_schema: { type: 'object'; [keyword: string]: unknown }
  strict?: true
  defer_loading?: true
}

type SearchTool =
  | { type: 'tool_search_tool_bm25_20251119'; name: 'tool_search_tool_bm25' }
  | { type: 'tool_search_tool_regex_20251119'; name: 'tool_search_tool_regex' }

type ImageType = 'image/jpeg' | 'image/png' | 'image/gif' | 'image/webp'

type ResultContent =
  | { type: 'text'; text: string }
  | { type: 'image'; source: { type: 'base64'; media_type: ImageType; data: string } }

export interface ToolResultBlock {
  type: 'tool_result'
  tool_use_id: string
  content: ResultContent[]
  is_error?: true
}

/** Members of a message that are read. */
interface Message {
  readonly role: string
  readonly content: unknown
}

export interface AnthropicTools {
  readonly tools: (AnthropicTool | SearchTool)[]
  /** What converting the schemas widened or left out, one sentence for each tool. */
  readonly notes: readonly string[]
  /** Makes the tool calls of an answer. `messages` is the history that the answer follows; it may end with the answer itself. */
  run(messages: readonly Message[], answer: Message, options?: RunOptions): Promise<AnthropicRun>
  /** Counts the calls of messages that are about to be removed from the history. */
  earlier(messages: readonly Message[]): EarlierCalls
}

export interface AnthropicRun {
  /** Content of the next message of the user. Complete only if nothing is pending. */
  readonly results: ToolResultBlock[]
  /** Calls that wait for a person. Run the same answer again after the decision: nothing runs a second time. */
  readonly pending: readonly PendingCall[]
}

const LIMITS = { provider: 'Anthropic', nameLength: 64, maxTools: 10_000 } as const

/** The tools of a server or gateway for one conversation. */
export async function anthropicTools(
  source: AgentSource,
  options: AnthropicOptions,
): Promise<AnthropicTools> {
  const toolset = await openToolset(source, options, LIMITS)
  const isDeferred = options.defer !== undefined
  const tools = toolset.tools.map((tool): AnthropicTool => {
    const { name, description, schema, isStrict } = tool
    return {
      ...{ name, description, input_schema: { ...schema, type: 'object' } },
      ...(isStrict ? { strict: true } : {}),
      ...(isDeferred && tool.isDeferrable ? { defer_loading: true } : {}),
    }
  })
  return {
    tools: [...searchTool(options), ...tools],
    notes: toolset.notes,
    async run(messages, answer, runOptions = {}) {
      const calls = blocksOf(answer)
        .flatMap(readCall)
        .filter(({ name }) => toolset.has(name))
      const { done, pending } = await toolset.runAll(calls, historyOf(messages), runOptions)
      return { results: done.map(({ call, result }) => toBlock(call.id, result)), pending }
    },
    earlier: (messages) => toolset.earlier(historyOf(messages)),
  }
}

function searchTool({ defer }: AnthropicOptions): readonly SearchTool[] {
  if (defer === undefined) return []
  return defer === 'bm25'
    ? [{ type: 'tool_search_tool_bm25_20251119', name: 'tool_search_tool_bm25' }]
    : [{ type: 'tool_search_tool_regex_20251119', name: 'tool_search_tool_regex' }]
}

const IMAGE_TYPES: readonly ImageType[] = ['image/jpeg', 'image/png', 'image/gif', 'image/webp']

function toBlock(id: string, result: AgentResult): ToolResultBlock {
  const content = partsOf(result).map((part): ResultContent => {
    if (part.type === 'text') return part
    const media_type = IMAGE_TYPES.find((type) => type === part.mediaType)
    if (media_type === undefined)
      return { type: 'text', text: `[${part.mediaType}, which the Messages API cannot show]` }
    return { type: 'image', source: { type: 'base64', media_type, data: part.data } }
  })
  // The API accepts only texts in a failed result.
  const failed: ResultContent[] = [{ type: 'text', text: resultText(result) }]
  return {
    ...{ type: 'tool_result', tool_use_id: id, content: result.isError ? failed : content },
    ...(result.isError ? { is_error: true } : {}),
  }
}

function blocksOf({ content }: Message): readonly JsonObject[] {
  const blocks = toJson(content)
  return Array.isArray(blocks) ? blocks.filter(isJsonObject) : []
}

function readCall({ type, id, name, input }: JsonObject) {
  if (type !== 'tool_use' || typeof id !== 'string' || typeof name !== 'string') return []
  return [{ id, name, input: input ?? {} }]
}

function historyOf(messages: readonly Message[]): readonly ShownCall[] {
  return shownCalls(
    messages.flatMap((message, turn) =>
      blocksOf(message).flatMap((block): readonly HistoryEntry[] => {
        if (block.type === 'tool_result' && typeof block.tool_use_id === 'string')
          return [{ resultOf: block.tool_use_id, text: textIn(block.content) }]
        return readCall(block).map((call) => ({ call: { ...call, turn } }))
      }),
    ),
  )
}

function textIn(content: JsonValue | undefined): string {
  if (typeof content === 'string') return content
  const [first] = Array.isArray(content) ? content : []
  return isJsonObject(first) && typeof first.text === 'string' ? first.text : ''
}
