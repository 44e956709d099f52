import {
  dynamicTool,
  jsonSchema,
  type ModelMessage,
  type ToolApprovalStatus,
  type ToolExecutionOptions,
  type ToolSet,
} from 'ai'
import type { EarlierCalls } from './call-keys.ts'
import { historyOf } from './model-messages.ts'
import type { AgentSource, Ask } from './source.ts'
import type { AgentOptions, AgentTool } from './tool-list.ts'
import {
  type AgentResult,
  openToolset,
  partsOf,
  readResult,
  resultText,
  type Toolset,
  toJson,
} from './toolset.ts'

/*
 * The subpath `collet/ai-sdk`: tools for `generateText`, `streamText` and agents of the AI SDK.
 * Invariants: the array of messages that the SDK passes to `execute` identifies the step of a call; whether a person
 * has to act is known before `execute` runs, through `toolApproval`.
 */

export type { AgentSource, AgentTool, Ask, EarlierCalls }

export interface AiSdkOptions extends Omit<AgentOptions, 'strict'> {
  /** Marks tools with `deferLoading`, for the SDK's `toolSearch`; `favourites` are always listed. */
  readonly defer?: boolean | undefined
}

type CallOptions = Pick<ToolExecutionOptions<unknown>, 'toolCallId' | 'messages'>

export interface AiSdkTools {
  readonly tools: ToolSet
  /** Pass it to the SDK as `toolApproval`. It has an entry for each tool whose calls may have to wait for a person. */
  readonly toolApproval: Record<string, (input: unknown, options: CallOptions) => Promise<ToolApprovalStatus>>
  /** What converting the schemas widened or left out, one sentence for each tool. */
  readonly notes: readonly string[]
  /** Counts the calls of messages that are about to be removed from the history. */
  earlier(messages: readonly ModelMessage[]): EarlierCalls
}

/** The SDK itself has no limits; its providers accept names of up to 64 characters. */
const LIMITS = { provider: 'The AI SDK', nameLength: 64 } as const

/** The tools of a server or gateway for one conversation. */
export async function aiSdkTools(source: AgentSource, options: AiSdkOptions): Promise<AiSdkTools> {
  const toolset = await openToolset(source, options, LIMITS)
  const calls = new SdkCalls(toolset)
  const asking = toolset.tools.filter(({ mayAsk }) => mayAsk)
  return {
    tools: Object.fromEntries(
      toolset.tools.map((tool) => [tool.name, toSdkTool(tool, calls, options.defer === true)]),
    ),
    toolApproval: Object.fromEntries(
      asking.map(({ name }) => [name, (input, call) => calls.ask(name, input, call)]),
    ),
    notes: toolset.notes,
    earlier: (messages) => toolset.earlier(historyOf(messages)),
  }
}

function toSdkTool(tool: AgentTool, calls: SdkCalls, isDeferred: boolean): ToolSet[string] {
  return {
    ...dynamicTool({
      description: tool.description,
      inputSchema: jsonSchema(JSON.parse(JSON.stringify(tool.schema))),
      execute: (input, call) => calls.execute(tool.name, input, call),
      toModelOutput: ({ output }) => modelOutput(output),
    }),
    ...(isDeferred && tool.isDeferrable ? { deferLoading: true } : {}),
  }
}

/** The calls of a conversation. `ask` already makes a call to learn whether it needs a person; if it needs none, it has run, and `execute` returns the kept result. */
class SdkCalls {
  readonly #toolset: Toolset
  readonly #made = new WeakMap<object, Map<string, AgentResult>>()

  constructor(toolset: Toolset) {
    this.#toolset = toolset
  }

  async ask(name: string, input: unknown, call: CallOptions): Promise<ToolApprovalStatus> {
    const result = await this.#run(name, input, call, {})
    if (result.asks.length === 0) {
      const made = this.#made.get(call.messages) ?? new Map<string, AgentResult>()
      this.#made.set(call.messages, made.set(call.toolCallId, result))
      return 'not-applicable'
    }
    return { type: 'user-approval', reason: result.asks.map(askText).join('\n') }
  }

  async execute(name: string, input: unknown, call: ToolExecutionOptions<unknown>): Promise<AgentResult> {
    const made = this.#made.get(call.messages)?.get(call.toolCallId)
    const isApproved = wasApproved(call)
    return made ?? (await this.#run(name, input, call, { isApproved, signal: call.abortSignal }))
  }

  #run(
    name: string,
    input: unknown,
    { toolCallId, messages }: CallOptions,
    more: { readonly isApproved?: boolean; readonly signal?: AbortSignal | undefined },
  ): Promise<AgentResult> {
    const history = historyOf(messages)
    return this.#toolset.run({ id: toolCallId, name, input: toJson(input), step: messages, history, ...more })
  }
}

function askText({ kind, url }: Ask): string {
  return `${kind === 'approval' ? 'Approve the call' : 'Give access'}: ${url}`
}

function modelOutput(given: unknown) {
  const output = readResult(given)
  if (output.isError) return { type: 'error-text' as const, value: resultText(output) }
  return {
    type: 'content' as const,
    value: partsOf(output).map((part) =>
      part.type === 'text'
        ? part
        : {
            type: 'file' as const,
            data: { type: 'data' as const, data: part.data },
            mediaType: part.mediaType,
          },
    ),
  }
}

/** Whether the messages have a person's consent to the call. */
function wasApproved({ toolCallId, messages }: CallOptions): boolean {
  const parts = messages.flatMap(({ content }): readonly object[] =>
    typeof content === 'string' ? [] : content,
  )
  const asked = parts.flatMap((part) => {
    const isOwn = 'toolCallId' in part && part.toolCallId === toolCallId
    return isOwn && 'approvalId' in part ? [part.approvalId] : []
  })
  return parts.some((part) => {
    const isConsent = 'approved' in part && part.approved === true && 'approvalId' in part
    return isConsent && asked.includes(part.approvalId)
  })
}
