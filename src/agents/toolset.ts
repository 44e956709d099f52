import { copyJson, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { encodeValue } from '#protocols/mcp/results/content'
import { fitResult, MIN_MODEL_BYTES } from '#protocols/mcp/results/fit'
import { addressOf, DEFAULT_MODEL_BYTES, READ_RESULT } from '#protocols/mcp/results/read-result'
import { NEW_REVISION } from '#protocols/mcp/wire'
import { MAX_WORDS_BYTES, partText, valueText } from '#results/words'
import { CALL_TOOL, describeSearch, unknownToolText } from '#search/for-models'
import {
  CallKeys,
  type CallPlace,
  type EarlierCalls,
  type KnownCall,
  type ShownCall,
  unfinishedText,
} from './call-keys.ts'
import {
  type AgentSource,
  type Ask,
  type Backend,
  openBackend,
  type SourceReply,
  type SourceTool,
} from './source.ts'
import {
  type AgentOptions,
  type AgentTool,
  familiesIn,
  type Listed,
  listTools,
  type ProviderLimits,
  type ToolList,
} from './tool-list.ts'
import { withoutWidening } from './tool-schema.ts'

/*
 * The tools of a server or gateway for one conversation of an agent: the list that a model gets, and the calls that the model
 * makes. The module of each library converts both to the library's types.
 * Invariants: a call has a key that a resumed loop finds again (`call-keys.ts`); a result fits into the model's budget; a result
 * that comes from an earlier call's record says so.
 */

export interface AgentCall extends Omit<CallPlace, 'conversation'> {
  readonly name: string
  readonly input: JsonValue
  /** The key of a call that is resumed; absent: the key is computed from the history. */
  readonly key?: string | undefined
  /** Default: the conversation in the options. */
  readonly conversation?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** A person agreed to the call through the library, so `AgentOptions.approve` is called. */
  readonly isApproved?: boolean
}

/** A part of a result, in a form that every library supports. */
export type ResultPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'file'; readonly data: string; readonly mediaType: string }

export interface AgentResult {
  /** Content blocks of MCP: text, image, audio, resource. */
  readonly blocks: readonly JsonObject[]
  readonly isError: boolean
  /** What people have to do before the call can run. After that the call has to be made again. */
  readonly asks: readonly Ask[]
  readonly callId?: string
}

export interface MessageCall {
  readonly id: string
  readonly name: string
  readonly input: JsonValue
}

/** A call that waits for a person; it runs when the message is run again after the decision. */
export interface PendingCall extends MessageCall {
  readonly asks: readonly Ask[]
}

export interface RunOptions {
  /** Ids of tool calls that a person agreed to; `AgentOptions.approve` is called for them. */
  readonly approved?: readonly string[]
}

export interface MadeCalls {
  readonly done: readonly { readonly call: MessageCall; readonly result: AgentResult }[]
  readonly pending: readonly PendingCall[]
}

/** Options for libraries that pass the conversation with each call. */
export interface ToolsetOptions extends Omit<AgentOptions, 'conversation'> {
  readonly conversation?: string | undefined
}

interface Prepared {
  readonly tool: SourceTool
  readonly call: KnownCall
}

export class Toolset {
  readonly tools: readonly AgentTool[]
  /** What converting the schemas for the provider widened or left out, one sentence for each tool. */
  readonly notes: readonly string[]
  readonly #listed: ReadonlyMap<string, Listed>
  readonly #all: ReadonlyMap<string, Listed>
  readonly #backend: Backend
  readonly #options: ToolsetOptions
  readonly #keys: CallKeys

  constructor(parts: ToolsetParts) {
    const { options, listed, all, notes, backend } = parts
    this.#options = options
    this.#backend = backend
    this.#listed = new Map(listed.map((tool) => [tool.name, tool]))
    this.#all = new Map(all.map((tool) => [tool.name, tool]))
    this.tools = listed
    this.notes = notes
    this.#keys = new CallKeys({
      earlier: options.earlier,
      again: options.again,
      read: (name, input) => this.#prepare(name, input)?.call,
    })
  }

  /** Counts the calls whose results this part of the history shows. Pass the counts as `earlier` once the part is removed. */
  earlier(history: readonly ShownCall[]): EarlierCalls {
    return this.#keys.count(history)
  }

  has(name: string): boolean {
    return this.#listed.has(name) || this.#all.has(name)
  }

  async run(call: AgentCall): Promise<AgentResult> {
    const listed = this.#listed.get(call.name) ?? this.#all.get(call.name)
    const input = isJsonObject(call.input) ? call.input : {}
    if (listed?.target === 'search') return await this.#search(input)
    if (listed?.target === 'describe') return this.#describe(input)
    if (listed?.target === 'read') return await this.#read(input)
    const prepared = this.#prepare(call.name, call.input)
    if (prepared === undefined) return await this.#unprepared(call)
    const { tool } = prepared
    // A call that only reads has no key, because it has to return the current state and not a result from an earlier turn.
    const isKeyed = tool.hasEffects || tool.mayAsk
    const key = call.key ?? (isKeyed ? this.#keyOf(prepared, call) : undefined)
    const send = () => this.#backend.call(tool, prepared.call.input, { key, signal: call.signal })
    const reply = await send()
    const isDecided = call.isApproved === true && (await this.#approve(reply))
    return await this.#resultOf(isDecided ? await send() : reply, tool)
  }

  /** A name that is no tool of the source: through `call_tool` it may be the tool that reads results. */
  async #unprepared({ name, input }: AgentCall): Promise<AgentResult> {
    const named = isJsonObject(input) && name === CALL_TOOL ? input : {}
    const called = typeof named.name === 'string' ? named.name : name
    const isRead = this.#listed.get(called)?.target === 'read'
    if (isRead) return await this.#read(isJsonObject(named.arguments) ? named.arguments : {})
    const isSearched = this.#listed.get(CALL_TOOL)?.target === 'call'
    return failure(isSearched ? unknownToolText(called) : `There is no tool ${JSON.stringify(called)}.`)
  }

  /** Makes the calls of one message, for loops that the application writes. `history` may include the message. */
  async runAll(
    calls: readonly MessageCall[],
    history: readonly ShownCall[],
    { approved = [] }: RunOptions,
  ): Promise<MadeCalls> {
    const step = {}
    const made = await Promise.all(
      calls.map(async (call) => {
        const isApproved = approved.includes(call.id)
        return { call, result: await this.run({ ...call, step, history, isApproved }) }
      }),
    )
    return {
      done: made.filter(({ result }) => result.asks.length === 0),
      pending: made.flatMap(({ call, result: { asks } }) => (asks.length === 0 ? [] : [{ ...call, asks }])),
    }
  }

  async #approve(reply: SourceReply): Promise<boolean> {
    const { approve } = this.#options
    const approvals = reply.ok ? [] : reply.asks.filter(({ kind }) => kind === 'approval')
    if (approve === undefined || approvals.length === 0) return false
    for (const ask of approvals) await approve(ask)
    return true
  }

  #keyOf({ call: known }: Prepared, call: AgentCall): string {
    const { conversation = this.#options.conversation } = call
    if (typeof conversation !== 'string' || conversation === '')
      throw new TypeError('Name the conversation: { conversation: "an id that a resumed loop has again" }.')
    return this.#keys.keyOf(known, { ...call, conversation })
  }

  async #resultOf(reply: SourceReply, tool: SourceTool): Promise<AgentResult> {
    const { callId, replayed } = reply
    if (reply.ok) {
      const blocks = this.#blocksOf(reply.success, callId, tool)
      return {
        blocks: replayed ? [textBlock(replayText(tool)), ...blocks] : blocks,
        isError: false,
        asks: [],
        callId,
      }
    }
    const { code, asks, isOpen } = reply
    const text = code === 'key_conflict' ? await this.#conflictText(tool, callId) : reply.text
    const shown = replayed ? `${replayText(tool)}\n${text}` : text
    return { ...failure(isOpen ? unfinishedText(text) : shown), asks, callId }
  }

  #blocksOf(success: (SourceReply & { ok: true })['success'], callId: string, tool: SourceTool) {
    const modelBytes = this.#options.modelBytes ?? tool.shown.policy.modelBytes ?? DEFAULT_MODEL_BYTES
    const options = {
      modelBytes,
      revision: NEW_REVISION,
      tool: tool.shown,
      readToolName: () => READ_RESULT,
    } as const
    const members =
      fitResult(success, callId, options)?.members ?? encodeValue(success, tool.shown, NEW_REVISION)
    const { content }: JsonObject = JSON.parse(`{${members}}`)
    return Array.isArray(content) ? content.filter(isJsonObject) : []
  }

  /** The text for a key that belongs to a call with other input. This happens only for tools with an identity. */
  async #conflictText({ identity = [] }: SourceTool, callId: string): Promise<string> {
    const recorded = await this.#backend.read(callId, {}, MIN_MODEL_BYTES).then(
      ({ value }) => ` It returned: ${valueText(value)}`,
      () => '',
    )
    return `A call with the same ${identity.join(', ')} and other input was made earlier in this conversation, so this one did not run.${recorded} ${ONCE_MORE}`
  }

  /** The tool and input of a call, made by the tool's name or through `call_tool`. */
  #prepare(name: string, written: JsonValue): Prepared | undefined {
    const listed = this.#listed.get(name) ?? this.#all.get(name)
    const given = isJsonObject(written) ? written : {}
    if (listed?.target === 'call') {
      const inner = typeof given.arguments === 'string' ? parsed(given.arguments) : given.arguments
      return typeof given.name === 'string' && given.name !== CALL_TOOL
        ? this.#prepare(given.name, inner ?? {})
        : undefined
    }
    if (listed === undefined || typeof listed.target === 'string') return undefined
    const { target: tool, again } = listed
    const plain = withoutWidening(given, listed.isStrict ? tool.inputSchema : undefined)
    const { [again ?? '']: repeated, ...rest } = isJsonObject(plain) ? plain : {}
    const input = again === undefined && isJsonObject(plain) ? plain : rest
    const times = typeof repeated === 'number' && repeated > 0 ? repeated : 0
    return { tool, call: { tool: tool.base, input, identity: tool.identity, again: times } }
  }

  async #search({ query, limit }: JsonObject): Promise<AgentResult> {
    if (typeof query !== 'string' || query.trim() === '')
      return failure('query must be a string that describes the task.')
    const found = await this.#backend.search(query, typeof limit === 'number' ? limit : undefined)
    const all = [...this.#all.values()]
    const shown = found.flatMap(({ id, unavailable }) => {
      const listed = all.find(({ target }) => typeof target !== 'string' && target.id === id)
      return listed === undefined ? [] : [{ tool: { ...listed, inputSchema: listed.schema }, unavailable }]
    })
    const answer = { found: shown, families: familiesIn(all) }
    return success(describeSearch(query, answer, ({ name }) => name))
  }

  #describe({ names }: JsonObject): AgentResult {
    const wanted = (Array.isArray(names) ? names : []).filter((name) => typeof name === 'string')
    const lines = wanted.map((name) => {
      const tool = this.#all.get(name)
      if (tool === undefined) return JSON.stringify({ name, error: unknownToolText(name) })
      return JSON.stringify({ name, description: tool.description, inputSchema: tool.schema })
    })
    return lines.length === 0 ? failure('names must be a list of names of tools.') : success(lines.join('\n'))
  }

  async #read(input: JsonObject): Promise<AgentResult> {
    try {
      const { callId, request } = addressOf(input)
      const modelBytes = this.#options.modelBytes || DEFAULT_MODEL_BYTES
      const maxBytes = Math.max(MIN_MODEL_BYTES, modelBytes) - MAX_WORDS_BYTES
      const part = await this.#backend.read(callId, request, maxBytes)
      return success(partText(part), valueText(part.value, request.format))
    } catch (error) {
      return failure(error instanceof Error ? error.message : 'The result cannot be read.')
    }
  }
}

const ONCE_MORE = `To do it once more on purpose, repeat the call with "again": 1.`

function replayText({ identity }: SourceTool): string {
  const more = identity === undefined ? 'Only if it is to be done once more, make the call again.' : ONCE_MORE
  return `This call was already made earlier in this conversation. It did not run again; this is its recorded result. ${more}`
}

function textBlock(text: string): JsonObject {
  return { type: 'text', text }
}

function success(...texts: readonly string[]): AgentResult {
  return { blocks: texts.map(textBlock), isError: false, asks: [] }
}

function failure(text: string): AgentResult {
  return { blocks: [textBlock(text)], isError: true, asks: [] }
}

function parsed(text: string): JsonValue {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

interface ToolsetParts extends ToolList {
  readonly options: ToolsetOptions
  readonly backend: Backend
}

/** Reads the tools of a source once; open a toolset for each conversation. */
export async function openToolset(
  source: AgentSource,
  options: ToolsetOptions,
  limits: ProviderLimits,
): Promise<Toolset> {
  const backend = openBackend(source, options)
  return new Toolset({ options, backend, ...listTools(await backend.list(), options, limits) })
}

/** A result as texts and files. */
export function partsOf({ blocks }: AgentResult): readonly ResultPart[] {
  return blocks.map((block) => {
    const { type, text, data, mimeType, resource } = block
    if (typeof text === 'string') return { type: 'text', text }
    const isFile = (type === 'image' || type === 'audio') && typeof data === 'string'
    if (isFile && typeof mimeType === 'string') return { type: 'file', data, mediaType: mimeType }
    if (isJsonObject(resource) && typeof resource.text === 'string')
      return { type: 'text', text: resource.text }
    return { type: 'text', text: JSON.stringify(block) }
  })
}

/** A result as one text, for places that accept only text. */
export function resultText(result: AgentResult): string {
  return partsOf(result)
    .map((part) =>
      part.type === 'text' ? part.text : `[${part.mediaType}, ${part.data.length} characters of base64]`,
    )
    .join('\n')
}

/** A library's value as JSON; such values are JSON already, so anything else becomes `{}`. */
export function toJson(value: unknown): JsonValue {
  const copied = copyJson(value)
  return copied.ok ? copied.value : {}
}

/** Reads a result that a library stored and passes back. */
export function readResult(stored: unknown): AgentResult {
  const value = toJson(stored)
  const { blocks, isError } = isJsonObject(value) ? value : {}
  if (!Array.isArray(blocks))
    return failure(typeof stored === 'string' ? stored : (JSON.stringify(stored) ?? ''))
  return { blocks: blocks.filter(isJsonObject), isError: isError === true, asks: [] }
}

/** The calls of a loop whose library passes the history separately, through `observe`, once for each message of the model. */
export class LoopCalls {
  readonly #toolset: Toolset
  /** Tells the developer how to pass the history; part of an error message. */
  readonly #advice: string
  readonly #made = new Map<string, AgentResult>()
  readonly #asks = new Map<string, readonly Ask[]>()
  #history: readonly ShownCall[] | undefined
  #step = {}

  constructor(toolset: Toolset, advice: string) {
    this.#toolset = toolset
    this.#advice = advice
  }

  observe(history: readonly ShownCall[]): void {
    this.#history = history
    this.#step = {}
    this.#made.clear()
    this.#asks.clear()
  }

  /** Whether a person has to act first. If not, the call has already run, and `run` returns its result. */
  async mustAsk(call: LoopCall): Promise<boolean> {
    const result = await this.#run(call)
    this.#asks.set(call.id, result.asks)
    if (result.asks.length > 0) return true
    this.#made.set(call.id, result)
    return false
  }

  /** What a person has to do before this call of the last message can run. */
  asksOf(id: string): readonly Ask[] {
    return this.#asks.get(id) ?? []
  }

  async run(call: LoopCall): Promise<AgentResult> {
    return this.#made.get(call.id) ?? (await this.#run(call))
  }

  #run(call: LoopCall): Promise<AgentResult> {
    const history = this.#history
    if (history === undefined)
      throw new Error(`The tools have not received the history of this run. ${this.#advice}`)
    return this.#toolset.run({ ...call, step: this.#step, history })
  }
}

type LoopCall = Omit<AgentCall, 'step' | 'history'>
