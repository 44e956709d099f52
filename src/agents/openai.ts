import { isJsonObject, type JsonValue, parseJson } from '#kernel/base/json'
import { type EarlierCalls, type HistoryEntry, type ShownCall, shownCalls } from './call-keys.ts'
import type { AgentSource, Ask } from './source.ts'
import type { AgentOptions, AgentTool } from './tool-list.ts'
import {
  type AgentResult,
  LoopCalls,
  type MessageCall,
  openToolset,
  type PendingCall,
  partsOf,
  type RunOptions,
  resultText,
  type Toolset,
  toJson,
} from './toolset.ts'

/*
 * The subpath `collet/openai`: tools for chat completions, for the Responses API and for the Agents SDK.
 * Invariant: it does not import the SDKs; its types are compatible with those of the SDKs.
 */

export type { AgentSource, Ask, EarlierCalls, PendingCall, RunOptions }

export interface OpenAiOptions extends AgentOptions {
  /** Marks tools with `defer_loading` and adds OpenAI's `tool_search`; `favourites` are always loaded. Not for chat completions. */
  readonly defer?: boolean | undefined
}

const LIMITS = { provider: 'OpenAI', nameLength: 64, maxTools: 128 } as const
/** Deferred tools do not count. */
const DEFERRED_LIMITS = { provider: 'OpenAI', nameLength: 64 } as const

function openTools(source: AgentSource, options: OpenAiOptions): Promise<Toolset> {
  return openToolset(source, options, options.defer === true ? DEFERRED_LIMITS : LIMITS)
}

interface Opened<Item> {
  /** What converting the schemas widened or left out, one sentence for each tool. */
  readonly notes: readonly string[]
  /** Counts the calls of items that are about to be removed from the history. */
  earlier(items: readonly Item[]): EarlierCalls
}

interface ChatTool {
  type: 'function'
  function: { name: string; description: string; parameters: Record<string, unknown>; strict?: true }
}

/** Members of a message that are read. */
interface ChatMessage {
  readonly role: string
}

type ChatResult =
  | { role: 'tool'; tool_call_id: string; content: string }
  /** Chat completions accept only texts as results of tools, so images follow in a message of the user. */
  | {
      role: 'user'
      content: ({ type: 'text'; text: string } | { type: 'image_url'; image_url: { url: string } })[]
    }

export interface ChatTools extends Opened<ChatMessage> {
  readonly tools: ChatTool[]
  /** Makes the tool calls of a message. `messages` is the history that the message follows; it may end with the message itself. */
  run(
    messages: readonly ChatMessage[],
    message: ChatMessage,
    options?: RunOptions,
  ): Promise<{
    /** The next messages. Complete only if nothing is pending. */
    readonly messages: ChatResult[]
    readonly pending: readonly PendingCall[]
  }>
}

/** Tools for `chat.completions.create`. */
export async function chatTools(
  source: AgentSource,
  options: Omit<OpenAiOptions, 'defer'>,
): Promise<ChatTools> {
  const toolset = await openTools(source, options)
  return {
    tools: toolset.tools.map(({ name, description, schema, isStrict }) => ({
      type: 'function',
      function: { name, description, parameters: { ...schema }, ...(isStrict ? { strict: true } : {}) },
    })),
    notes: toolset.notes,
    async run(messages, message, runOptions = {}) {
      const calls = chatCalls(toJson(message)).filter(({ name }) => toolset.has(name))
      const { done, pending } = await toolset.runAll(calls, chatHistory(messages), runOptions)
      return {
        messages: [...done.map(({ call, result }) => toChat(call, result)), ...imageMessages(done)],
        pending,
      }
    },
    earlier: (messages) => toolset.earlier(chatHistory(messages)),
  }
}

function toChat({ id }: MessageCall, result: AgentResult): ChatResult {
  const text = partsOf(result)
    .map((part) => (part.type === 'text' ? part.text : `[${part.mediaType}]`))
    .join('\n')
  return { role: 'tool', tool_call_id: id, content: text }
}

function imageMessages(
  done: readonly { readonly call: MessageCall; readonly result: AgentResult }[],
): readonly ChatResult[] {
  const shown = done.flatMap(({ call, result }) =>
    imagesOf(result).flatMap((url) => [
      { type: 'text' as const, text: `An image that ${call.name} returned (call ${call.id}):` },
      { type: 'image_url' as const, image_url: { url } },
    ]),
  )
  return shown.length === 0 ? [] : [{ role: 'user', content: shown }]
}

function imagesOf(result: AgentResult): readonly string[] {
  return partsOf(result).flatMap((part) =>
    part.type === 'file' && part.mediaType.startsWith('image/') ? [dataUrl(part)] : [],
  )
}

function dataUrl({ mediaType, data }: { readonly mediaType: string; readonly data: string }): string {
  return `data:${mediaType};base64,${data}`
}

function chatCalls(message: JsonValue): readonly MessageCall[] {
  const calls = isJsonObject(message) && Array.isArray(message.tool_calls) ? message.tool_calls : []
  return calls.flatMap((call: JsonValue) => {
    if (!isJsonObject(call) || !isJsonObject(call.function)) return []
    const { name, arguments: written } = call.function
    return typeof call.id === 'string' ? readCall(call.id, name, written) : []
  })
}

function readCall(
  id: string,
  name: JsonValue | undefined,
  written: JsonValue | undefined,
): readonly MessageCall[] {
  if (typeof name !== 'string') return []
  return [
    {
      id,
      name,
      input: typeof written === 'string' ? (parseJson(written || '{}') ?? written) : (written ?? {}),
    },
  ]
}

function chatHistory(messages: readonly ChatMessage[]): readonly ShownCall[] {
  return shownCalls(
    messages.flatMap((given, turn): readonly HistoryEntry[] => {
      const message = toJson(given)
      if (!isJsonObject(message)) return []
      const { role, tool_call_id: id, content } = message
      if (role === 'tool' && typeof id === 'string') return [{ resultOf: id, text: textIn(content) }]
      return chatCalls(message).map((call) => ({ call: { ...call, turn } }))
    }),
  )
}

function textIn(content: JsonValue | undefined): string {
  if (typeof content === 'string') return content
  const first = Array.isArray(content) ? content[0] : content
  return isJsonObject(first) && typeof first.text === 'string' ? first.text : ''
}

interface ResponseTool {
  type: 'function'
  name: string
  description: string
  parameters: Record<string, unknown>
  strict: boolean
  defer_loading?: true
}

type ResponseContent =
  | { type: 'input_text'; text: string }
  | { type: 'input_image'; image_url: string; detail: 'auto' }

interface ResponseResult {
  type: 'function_call_output'
  call_id: string
  output: string | ResponseContent[]
}

/** An item of a response or of its input. */
type Item = object

export interface ResponseTools extends Opened<Item> {
  readonly tools: (ResponseTool | { type: 'tool_search' })[]
  /** Makes the tool calls of a response. `input` is the list of items that the response follows. */
  run(
    input: string | readonly Item[],
    output: readonly Item[],
    options?: RunOptions,
  ): Promise<{
    /** Items to add after those of the response. Complete only if nothing is pending. */
    readonly items: ResponseResult[]
    readonly pending: readonly PendingCall[]
  }>
}

/** Tools for `responses.create`, with the whole history as input. */
export async function responseTools(source: AgentSource, options: OpenAiOptions): Promise<ResponseTools> {
  const toolset = await openTools(source, options)
  const isDeferred = options.defer === true
  const tools = toolset.tools.map(
    (tool): ResponseTool => ({
      ...{ type: 'function', name: tool.name, description: tool.description },
      ...{ parameters: { ...tool.schema }, strict: tool.isStrict },
      ...(isDeferred && tool.isDeferrable ? { defer_loading: true } : {}),
    }),
  )
  return {
    tools: isDeferred ? [{ type: 'tool_search' }, ...tools] : tools,
    notes: toolset.notes,
    async run(input, output, runOptions = {}) {
      const calls = output.flatMap((item) => itemCall(toJson(item))).filter(({ name }) => toolset.has(name))
      const history = itemHistory(typeof input === 'string' ? [] : input)
      const { done, pending } = await toolset.runAll(calls, history, runOptions)
      return { items: done.map(({ call, result }) => toItem(call, result)), pending }
    },
    earlier: (items) => toolset.earlier(itemHistory(items)),
  }
}

function toItem({ id }: MessageCall, result: AgentResult): ResponseResult {
  const images = imagesOf(result)
  const texts = partsOf(result).flatMap((part) => (part.type === 'text' ? [part.text] : []))
  const output =
    images.length === 0
      ? resultText(result)
      : [
          ...texts.map((text) => ({ type: 'input_text' as const, text })),
          ...images.map((image_url) => ({
            type: 'input_image' as const,
            image_url,
            detail: 'auto' as const,
          })),
        ]
  return { type: 'function_call_output', call_id: id, output }
}

/** Reads a call from an item in the spelling of the API or of the Agents SDK. */
function itemCall(item: JsonValue): readonly MessageCall[] {
  if (!isJsonObject(item) || item.type !== 'function_call') return []
  const id = item.call_id ?? item.callId
  return typeof id === 'string' ? readCall(id, item.name, item.arguments) : []
}

/** Consecutive calls belong to one message, until a result or another message follows. */
function itemHistory(items: readonly Item[]): readonly ShownCall[] {
  let turn = 0
  let isCalling = false
  return shownCalls(
    items.flatMap((given): readonly HistoryEntry[] => {
      const item = toJson(given)
      if (!isJsonObject(item)) return []
      const [call] = itemCall(item)
      if (call !== undefined) {
        if (!isCalling) turn += 1
        isCalling = true
        return [{ call: { ...call, turn } }]
      }
      const isResult = item.type === 'function_call_output' || item.type === 'function_call_result'
      if (isResult || item.type === 'message' || item.type === undefined) isCalling = false
      const id = item.call_id ?? item.callId
      return isResult && typeof id === 'string' ? [{ resultOf: id, text: textIn(item.output) }] : []
    }),
  )
}

type AgentContent = { type: 'text'; text: string } | { type: 'image'; image: string }

/** Members of a `RunContext` that are read. */
interface SdkContext {
  isToolApproved(approval: { toolName: string; callId: string }): boolean | undefined
}

/** A function tool of the Agents SDK. */
interface SdkTool {
  type: 'function'
  name: string
  description: string
  parameters: {
    type: 'object'
    properties: Record<string, never>
    required: string[]
    additionalProperties: boolean
  }
  strict: boolean
  deferLoading?: boolean
  invoke(
    context: SdkContext,
    input: string,
    details?: { toolCall?: { callId: string }; signal?: AbortSignal },
  ): Promise<string | AgentContent[]>
  needsApproval(context: object, input: unknown, callId?: string): Promise<boolean>
  isEnabled(): Promise<boolean>
}

export interface OpenAiAgentTools extends Opened<Item> {
  readonly tools: SdkTool[]
  /** Pass it to `run` or to the `Runner`: it records the history for the tools. */
  callModelInputFilter<Data extends { input: Item[] }>(args: { modelData: Data }): Data
  /** For a run that starts from a saved state: `observe(state.history)`. */
  observe(items: readonly Item[]): void
  /** What a person has to do for an interruption, with the page: `asksOf(interruption.rawItem)`. */
  asksOf(item: object): readonly Ask[]
}

/** Tools for agents of `@openai/agents`. Use them for one agent loop at a time. */
export async function agentTools(source: AgentSource, options: OpenAiOptions): Promise<OpenAiAgentTools> {
  const toolset = await openTools(source, options)
  const calls = new LoopCalls(toolset, ADVICE)
  return {
    tools: toolset.tools.map((tool) => toSdkTool(tool, calls, options.defer === true)),
    notes: toolset.notes,
    callModelInputFilter({ modelData }) {
      calls.observe(itemHistory(modelData.input))
      return modelData
    },
    observe: (items) => calls.observe(itemHistory(items)),
    asksOf: (item) => ('callId' in item && typeof item.callId === 'string' ? calls.asksOf(item.callId) : []),
    earlier: (items) => toolset.earlier(itemHistory(items)),
  }
}

function toSdkTool(tool: AgentTool, calls: LoopCalls, isDeferred: boolean): SdkTool {
  const { name, description, schema, isStrict } = tool
  const required: JsonValue[] = Array.isArray(schema.required) ? [...schema.required] : []
  const properties: Record<string, never> = {}
  Object.assign(properties, schema.properties)
  const additionalProperties = !isStrict && schema.additionalProperties !== false
  const texts = required.filter((each) => typeof each === 'string')
  return {
    ...{ type: 'function', name, description, strict: isStrict },
    parameters: { ...schema, type: 'object', properties, required: texts, additionalProperties },
    ...(isDeferred && tool.isDeferrable ? { deferLoading: true } : {}),
    invoke(context, input, { toolCall, signal } = {}) {
      const { callId = '' } = toolCall ?? {}
      const isApproved = context.isToolApproved({ toolName: name, callId }) === true
      const call = { id: callId, name, input: parseJson(input || '{}') ?? {} }
      return outputOf(calls.run({ ...call, signal, isApproved }))
    },
    needsApproval: async (_context, input, callId = '') =>
      tool.mayAsk && (await calls.mustAsk({ id: callId, name, input: toJson(input) })),
    isEnabled: async () => true,
  }
}

const ADVICE =
  'Pass `callModelInputFilter` to `run`, and call `observe(state.history)` before a run that starts from a saved state.'

async function outputOf(made: Promise<AgentResult>): Promise<string | AgentContent[]> {
  const result = await made
  if (imagesOf(result).length === 0) return resultText(result)
  return partsOf(result).map((part) =>
    part.type === 'text' ? part : { type: 'image', image: dataUrl(part) },
  )
}
