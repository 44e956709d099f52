import { createTool, type Tool } from '@mastra/core/tools'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import type { EarlierCalls } from './call-keys.ts'
import { historyOf } from './model-messages.ts'
import type { AgentSource, Ask } from './source.ts'
import type { AgentOptions, AgentTool } from './tool-list.ts'
import {
  type AgentResult,
  LoopCalls,
  openToolset,
  partsOf,
  readResult,
  resultText,
  type Toolset,
  toJson,
} from './toolset.ts'

/*
 * The subpath `collet/mastra`: tools for agents of Mastra.
 * Invariants: the history comes from the processor, because Mastra passes to tools only the messages with which the loop began; a call that
 * waits for a person suspends the run, and the resumed call has the key of the suspended one.
 */

export type { AgentSource, Ask, EarlierCalls }

export interface MastraOptions extends Omit<AgentOptions, 'conversation' | 'strict'> {
  /** Default: the thread of the agent's memory. */
  readonly conversation?: string | undefined
}

/** The messages of one step of a loop. */
interface StepArgs {
  readonly requestContext?: object | undefined
  readonly messageList: {
    readonly get: { readonly all: { readonly aiV5: { model(): readonly object[] } } }
  }
}

export interface MastraTools {
  readonly tools: Record<string, Tool>
  /** Add it to the agent's `inputProcessors`: it records the history for the tools. */
  readonly processor: { readonly id: string; processInputStep(args: StepArgs): undefined }
  /** What converting the schemas widened or left out, one sentence for each tool. */
  readonly notes: readonly string[]
  /** Counts the calls of messages that are about to be removed from the history. */
  earlier(messages: readonly object[]): EarlierCalls
}

const LIMITS = { provider: 'Mastra', nameLength: 64 } as const
const ADVICE = 'Add `processor` to the `inputProcessors` of the agent.'

/** The tools of a server or gateway, for every thread of an agent. */
export async function mastraTools(source: AgentSource, options: MastraOptions = {}): Promise<MastraTools> {
  const toolset = await openToolset(source, options, LIMITS)
  const loops = new Loops(toolset)
  return {
    tools: Object.fromEntries(toolset.tools.map((tool) => [tool.name, toTool(tool, loops)])),
    processor: {
      id: 'collet-tools',
      processInputStep({ requestContext, messageList }) {
        loops.of(requestContext).observe(historyOf(messageList.get.all.aiV5.model()))
      },
    },
    notes: toolset.notes,
    earlier: (messages) => toolset.earlier(historyOf(messages)),
  }
}

/** The calls of each request to an agent, by its request context. */
class Loops {
  readonly #toolset: Toolset
  readonly #byRequest = new WeakMap<object, LoopCalls>()

  constructor(toolset: Toolset) {
    this.#toolset = toolset
  }

  of(request: object = this): LoopCalls {
    const known = this.#byRequest.get(request) ?? new LoopCalls(this.#toolset, ADVICE)
    this.#byRequest.set(request, known)
    return known
  }

  /** A call whose key is known needs no history. */
  resumed(): LoopCalls {
    const calls = new LoopCalls(this.#toolset, ADVICE)
    calls.observe([])
    return calls
  }
}

const NOT_ALLOWED: AgentResult = {
  blocks: [{ type: 'text', text: 'The user did not allow this call.' }],
  isError: true,
  asks: [],
}

function toTool({ name, description, schema }: AgentTool, loops: Loops): Tool {
  return createTool({
    ...{ id: name, description, inputSchema: JSON.parse(JSON.stringify(schema)) },
    execute: async (input, { requestContext, abortSignal, agent }) => {
      const { toolCallId: id = '', threadId: conversation, resumeData, suspendPayload, suspend } = agent ?? {}
      const resumed = toJson(resumeData)
      if (isJsonObject(resumed) && resumed.approved === false) return NOT_ALLOWED
      const key = keyIn(toJson(suspendPayload))
      const calls = key === undefined ? loops.of(requestContext) : loops.resumed()
      const isApproved = isJsonObject(resumed) && resumed.approved === true
      const call = { id, name, input: toJson(input), conversation, key, signal: abortSignal, isApproved }
      const result = await calls.run(call)
      const { asks, callId } = result
      if (asks.length === 0 || suspend === undefined) return result
      return await suspend({ tool: name, input, asks, callId })
    },
    toModelOutput: modelOutput,
  })
}

function keyIn(suspended: JsonValue): string | undefined {
  const { callId }: JsonObject = isJsonObject(suspended) ? suspended : {}
  return typeof callId === 'string' ? callId : undefined
}

function modelOutput(given: unknown) {
  const output = readResult(given)
  if (output.isError) return { type: 'error-text', value: resultText(output) }
  const parts = partsOf(output)
  if (parts.every(({ type }) => type === 'text')) return { type: 'text', value: resultText(output) }
  return {
    type: 'content',
    value: parts.map((part) => (part.type === 'text' ? part : { ...part, type: 'media' })),
  }
}
