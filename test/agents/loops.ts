import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { deserialize, serialize } from 'node:v8'
import type Anthropic from '@anthropic-ai/sdk'
import type { MemorySaver as Saver } from '@langchain/langgraph'
import type { ModelMessage } from 'ai'
import type { AgentSource } from 'collet/ai-sdk'
import type OpenAI from 'openai'

/**
 * An agent loop in each library, as an application would write it: it begins with what was saved, and saves after each message.
 * Each loads its library itself, so that a process with one loop starts quickly.
 */

export interface LoopParts {
  readonly source: AgentSource
  readonly conversation: string
  /** Address of the server that simulates the provider. */
  readonly provider: string
  /** Keeps the state between processes. */
  readonly saved: SavedState
}

const PROMPT = 'Go.'
const MAX_STEPS = 12
const apiKey = 'a-key'

/** State in a file, written as a whole. */
export class SavedState {
  readonly #file: string | undefined
  #value: unknown

  constructor(file?: string) {
    this.#file = file
  }

  load<State>(otherwise: State): State {
    if (this.#file === undefined) return (this.#value as State | undefined) ?? otherwise
    try {
      return deserialize(readFileSync(this.#file))
    } catch {
      return otherwise
    }
  }

  save(value: unknown): void {
    this.#value = value
    if (this.#file === undefined) return
    writeFileSync(`${this.#file}.new`, serialize(value))
    renameSync(`${this.#file}.new`, this.#file)
  }
}

async function aiSdkLoop({ source, conversation, provider, saved }: LoopParts): Promise<void> {
  const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
  const { generateText, isStepCount } = await import('ai')
  const { aiSdkTools } = await import('collet/ai-sdk')
  const model = createOpenAICompatible({ name: 'plan', baseURL: `${provider}/v1` })('plan')
  const messages = saved.load<ModelMessage[]>([{ role: 'user', content: PROMPT }])
  const { tools } = await aiSdkTools(source, { conversation })
  let all = messages
  await generateText({
    ...{ model, tools, messages, stopWhen: isStepCount(MAX_STEPS) },
    onStepEnd({ response }) {
      all = [...all, ...response.messages]
      saved.save(all)
    },
  })
}

async function chatLoop({ source, conversation, provider, saved }: LoopParts): Promise<void> {
  const { OpenAI } = await import('openai')
  const { chatTools } = await import('collet/openai')
  const client = new OpenAI({ apiKey, baseURL: `${provider}/v1` })
  const { tools, run } = await chatTools(source, { conversation })
  let messages = saved.load<OpenAI.ChatCompletionMessageParam[]>([{ role: 'user', content: PROMPT }])
  for (;;) {
    const { choices } = await client.chat.completions.create({ model: 'plan', messages, tools })
    const message = choices[0]?.message
    if (message?.tool_calls === undefined) return
    const made = await run(messages, message)
    messages = [...messages, message, ...made.messages]
    saved.save(messages)
  }
}

async function responsesLoop({ source, conversation, provider, saved }: LoopParts): Promise<void> {
  const { OpenAI } = await import('openai')
  const { responseTools } = await import('collet/openai')
  const client = new OpenAI({ apiKey, baseURL: `${provider}/v1` })
  const { tools, run } = await responseTools(source, { conversation })
  let input = saved.load<OpenAI.Responses.ResponseInputItem[]>([{ role: 'user', content: PROMPT }])
  for (;;) {
    const { output } = await client.responses.create({ model: 'plan', input, tools })
    if (!output.some(({ type }) => type === 'function_call')) return
    const calls = output.flatMap((item) => (item.type === 'function_call' ? [item] : []))
    input = [...input, ...calls, ...(await run(input, output)).items]
    saved.save(input)
  }
}

/** It saves nothing: every start is a retry of the whole run. */
async function agentsLoop({ source, conversation, provider }: LoopParts): Promise<void> {
  const { OpenAI } = await import('openai')
  const { Agent, OpenAIProvider, Runner } = await import('@openai/agents')
  const { agentTools } = await import('collet/openai')
  const openAIClient = new OpenAI({ apiKey, baseURL: `${provider}/v1` })
  const { tools, callModelInputFilter } = await agentTools(source, { conversation })
  const agent = new Agent({ name: 'Agent', model: 'plan', tools })
  const runner = new Runner({
    ...{ modelProvider: new OpenAIProvider({ openAIClient }), tracingDisabled: true, callModelInputFilter },
  })
  await runner.run(agent, PROMPT, { maxTurns: MAX_STEPS })
}

async function anthropicLoop({ source, conversation, provider, saved }: LoopParts): Promise<void> {
  const { Anthropic } = await import('@anthropic-ai/sdk')
  const { anthropicTools } = await import('collet/anthropic')
  const client = new Anthropic({ apiKey, baseURL: provider })
  const { tools, run } = await anthropicTools(source, { conversation })
  let messages = saved.load<Anthropic.MessageParam[]>([{ role: 'user', content: PROMPT }])
  for (;;) {
    const answer = await client.messages.create({ model: 'plan', max_tokens: 1000, messages, tools })
    if (answer.stop_reason !== 'tool_use') return
    const { results } = await run(messages, answer)
    messages = [
      ...messages,
      { role: 'assistant', content: answer.content },
      { role: 'user', content: results },
    ]
    saved.save(messages)
  }
}

/** The checkpointer of LangGraph, in a file. */
async function openCheckpointer(saved: SavedState) {
  const { MemorySaver } = await import('@langchain/langgraph')
  class FileSaver extends MemorySaver {
    override async put(...args: Parameters<Saver['put']>) {
      const put = await super.put(...args)
      this.#save()
      return put
    }

    override async putWrites(...args: Parameters<Saver['putWrites']>) {
      await super.putWrites(...args)
      this.#save()
    }

    #save(): void {
      saved.save({ storage: this.storage, writes: this.writes })
    }
  }
  return Object.assign(new FileSaver(), saved.load({}))
}

async function langgraphLoop({ source, conversation, provider, saved }: LoopParts): Promise<void> {
  const { HumanMessage } = await import('@langchain/core/messages')
  const { createReactAgent } = await import('@langchain/langgraph/prebuilt')
  const { ChatOpenAI } = await import('@langchain/openai')
  const { langchainTools } = await import('collet/langchain')
  const llm = new ChatOpenAI({
    model: 'plan',
    apiKey,
    configuration: { baseURL: `${provider}/v1` },
    maxRetries: 0,
  })
  const { tools } = await langchainTools(source)
  const graph = createReactAgent({ llm, tools, checkpointer: await openCheckpointer(saved) })
  const config = {
    configurable: { thread_id: conversation },
    recursionLimit: 50,
    durability: 'sync',
  } as const
  const { next } = await graph.getState(config)
  await graph.invoke(next.length === 0 ? { messages: [new HumanMessage(PROMPT)] } : null, config)
}

async function mastraLoop({ source, conversation, provider, saved }: LoopParts): Promise<void> {
  const { Agent } = await import('@mastra/core/agent')
  const { mastraTools } = await import('collet/mastra')
  const { tools, processor } = await mastraTools(source, { conversation })
  const agent = new Agent({
    ...{ id: 'agent', name: 'Agent', instructions: 'Help.', tools, inputProcessors: [processor] },
    model: { id: 'plan/plan', url: `${provider}/v1`, apiKey },
  })
  const start = saved.load<{ role: 'user'; content: string }[]>([{ role: 'user', content: PROMPT }])
  await agent.generate(start, {
    maxSteps: MAX_STEPS,
    onStepFinish({ response }) {
      saved.save([...start, ...(response?.messages ?? [])])
    },
  })
}

export const LOOPS = {
  'ai-sdk': aiSdkLoop,
  'openai chat': chatLoop,
  'openai responses': responsesLoop,
  'openai agents': agentsLoop,
  anthropic: anthropicLoop,
  langgraph: langgraphLoop,
  mastra: mastraLoop,
} as const satisfies Record<string, (parts: LoopParts) => Promise<void>>
