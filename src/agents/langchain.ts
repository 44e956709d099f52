import type { RunnableConfig } from '@langchain/core/runnables'
import { DynamicStructuredTool } from '@langchain/core/tools'
import { interrupt } from '@langchain/langgraph'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { type EarlierCalls, type HistoryEntry, type ShownCall, shownCalls } from './call-keys.ts'
import type { AgentSource, Ask } from './source.ts'
import type { AgentOptions, AgentTool } from './tool-list.ts'
import { type AgentCall, type AgentResult, openToolset, partsOf, type Toolset, toJson } from './toolset.ts'

/*
 * The subpath `collet/langchain`: tools for `ToolNode`, `createReactAgent` and agents of LangChain, which keep the messages in their state.
 * Invariants: a call is found by its id in the last message of the state; an answer to an interrupt counts only for
 * the calls that it names, because parallel calls of a node may get each other's answers.
 */

export type { AgentSource, Ask, EarlierCalls }

export interface LangchainOptions extends Omit<AgentOptions, 'conversation' | 'strict'> {
  /** Default: `thread_id` of the graph's configuration. */
  readonly conversation?: string | undefined
}

/** The value of an interrupt. Resume with `{ approved: true }`, or with `{ approved: [ids], denied: [ids] }` if several calls wait. */
export interface LangchainQuestion {
  readonly id: string
  readonly tool: string
  readonly input: JsonValue
  readonly asks: readonly Ask[]
}

export interface LangchainTools {
  readonly tools: DynamicStructuredTool[]
  /** What converting the schemas widened or left out, one sentence for each tool. */
  readonly notes: readonly string[]
  /** Counts the calls of messages that are about to be removed from the state. */
  earlier(messages: readonly object[]): EarlierCalls
}

const LIMITS = { provider: 'LangChain', nameLength: 64 } as const

/** The tools of a server or gateway, for every thread of a graph. */
export async function langchainTools(
  source: AgentSource,
  options: LangchainOptions = {},
): Promise<LangchainTools> {
  const toolset = await openToolset(source, options, LIMITS)
  const calls = new GraphCalls(toolset)
  return {
    tools: toolset.tools.map((tool) => toTool(tool, calls)),
    notes: toolset.notes,
    earlier: (messages) => toolset.earlier(historyOf(messages)),
  }
}

function toTool({ name, description, schema }: AgentTool, calls: GraphCalls): DynamicStructuredTool {
  return new DynamicStructuredTool({
    ...{ name, description, schema: JSON.parse(JSON.stringify(schema)) },
    func: async (input, _manager, config) => contentOf(await calls.run(name, toJson(input), config)),
  })
}

function contentOf(result: AgentResult) {
  const parts = partsOf(result)
  if (parts.every(({ type }) => type === 'text'))
    return parts.map((part) => (part.type === 'text' ? part.text : '')).join('\n')
  return parts.map((part) =>
    part.type === 'text'
      ? part
      : { type: 'image_url', image_url: { url: `data:${part.mediaType};base64,${part.data}` } },
  )
}

interface Answers {
  readonly approved: Set<string>
  readonly denied: Set<string>
}

class GraphCalls {
  readonly #toolset: Toolset
  /** Answers to interrupts, by the graph state of the step that interrupted. */
  readonly #answers = new WeakMap<object, Answers>()

  constructor(toolset: Toolset) {
    this.#toolset = toolset
  }

  async run(name: string, input: JsonValue, config: RunnableConfig = {}): Promise<AgentResult> {
    const { id, state, messages } = placeOf(config)
    const history = historyOf(messages)
    const conversation = threadOf(config)
    const call: AgentCall = { id, name, input, conversation, step: state, history, signal: config.signal }
    const first = await this.#toolset.run(call)
    if (first.asks.length === 0) return first
    return (await this.#isAllowed(call, first.asks))
      ? await this.#toolset.run({ ...call, isApproved: true })
      : { blocks: [{ type: 'text', text: 'The user did not allow this call.' }], isError: true, asks: [] }
  }

  /** Interrupts the graph until an answer names the call. */
  #isAllowed({ id, name, input, step, history }: AgentCall, asks: readonly Ask[]): boolean {
    const answers = this.#answers.get(step) ?? { approved: new Set(), denied: new Set() }
    this.#answers.set(step, answers)
    const isAlone = history.filter(({ turn }) => turn === history.at(-1)?.turn).length <= 1
    while (!answers.approved.has(id) && !answers.denied.has(id)) {
      const question: LangchainQuestion = { id, tool: name, input, asks }
      const { approved, denied } = namedIn(toJson(interrupt(question)), isAlone ? id : undefined)
      for (const each of approved) answers.approved.add(each)
      for (const each of denied) answers.denied.add(each)
    }
    return !answers.denied.has(id)
  }
}

function namedIn(answer: JsonValue, only: string | undefined) {
  const { approved, denied } = isJsonObject(answer) ? answer : { approved: answer }
  const ids = (value: JsonValue | undefined): readonly string[] =>
    Array.isArray(value) ? value.filter((each) => typeof each === 'string') : []
  const alone = only === undefined ? [] : [only]
  return {
    approved: [...ids(approved), ...(approved === true ? alone : [])],
    denied: [...ids(denied), ...(approved === false ? alone : [])],
  }
}

/** The id of the call, and the graph state that the tool node received with its messages. */
function placeOf(config: object) {
  const { toolCall, toolCallId } = { toolCall: undefined, toolCallId: undefined, ...config }
  const own: { readonly id?: unknown } = typeof toolCall === 'object' && toolCall !== null ? toolCall : {}
  const state: object = 'state' in config && isObject(config.state) ? config.state : config
  const messages: unknown = Array.isArray(state) ? state : 'messages' in state ? state.messages : []
  return {
    id: String(own.id ?? toolCallId ?? ''),
    state,
    messages: Array.isArray(messages) ? messages.filter(isObject) : [],
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function threadOf({ configurable }: RunnableConfig): string | undefined {
  const thread: unknown = configurable?.thread_id
  return thread === undefined ? undefined : String(thread)
}

/** Messages are objects of classes, of which only a few members are read. */
function historyOf(messages: readonly object[]): readonly ShownCall[] {
  return shownCalls(messages.flatMap(entriesOf))
}

function entriesOf(message: object, turn: number): readonly HistoryEntry[] {
  if ('tool_call_id' in message && 'content' in message)
    return [{ resultOf: String(message.tool_call_id), text: textIn(toJson(message.content)) }]
  const calls = 'tool_calls' in message ? toJson(message.tool_calls) : []
  return (Array.isArray(calls) ? calls.filter(isJsonObject) : []).map((call: JsonObject) => {
    const { id, name, args } = call
    return { call: { id: String(id), name: String(name), input: args ?? {}, turn } }
  })
}

function textIn(content: JsonValue): string {
  if (typeof content === 'string') return content
  const [first] = Array.isArray(content) ? content : []
  return isJsonObject(first) && typeof first.text === 'string' ? first.text : ''
}
