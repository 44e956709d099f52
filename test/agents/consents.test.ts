import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import Anthropic from '@anthropic-ai/sdk'
import { HumanMessage } from '@langchain/core/messages'
import { Command, MemorySaver } from '@langchain/langgraph'
import { createReactAgent } from '@langchain/langgraph/prebuilt'
import { ChatOpenAI } from '@langchain/openai'
import { Mastra } from '@mastra/core'
import { Agent as MastraAgent } from '@mastra/core/agent'
import { InMemoryStore } from '@mastra/core/storage'
import { Agent, OpenAIProvider, Runner, RunState } from '@openai/agents'
import { generateText, isStepCount, type ModelMessage } from 'ai'
import { aiSdkTools } from 'collet/ai-sdk'
import { anthropicTools } from 'collet/anthropic'
import { connect } from 'collet/client'
import { langchainTools } from 'collet/langchain'
import { mastraTools } from 'collet/mastra'
import { agentTools, chatTools } from 'collet/openai'
import OpenAI from 'openai'
import { afterEach, expect, it } from 'vitest'
import { Browser } from '../oauth/browser.ts'
import { AGENT, openStage } from '../oauth/oauth-stage.ts'
import { startProvider } from './provider.ts'

/** A tool that needs a consent: each library asks in its own way, the user consents on the page that it names, and the call runs once. */

const SEND = { name: 'Mail_Send', input: {} }
const apiKey = 'a-key'
const closing: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

async function open() {
  const stage = await openStage()
  const provider = await startProvider([[SEND]])
  closing.push(
    () => stage[Symbol.asyncDispose](),
    () => provider.close(),
  )
  const client = connect(stage.url, { apiKey: AGENT })
  const options = { conversation: 'c1' } as const
  return { stage, provider, client, options, base: `${provider.url}/v1` }
}

/** What a library was asked is a consent; opens its page as the user does. */
async function consent(asks: unknown): Promise<void> {
  expect(asks).toMatchObject([{ kind: 'authorization', url: expect.any(String) }])
  const [, url = ''] = /"url":"([^"]+)"/.exec(JSON.stringify(asks)) ?? []
  const page = await new Browser().visit(url, { login: 'ann' })
  expect(page.text).toContain('has been granted')
}

it('Anthropic', async () => {
  const { stage, provider, client, options } = await open()
  const anthropic = new Anthropic({ apiKey, baseURL: provider.url })
  const { tools, run } = await anthropicTools(client, options)
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'Go.' }]
  const answer = await anthropic.messages.create({ model: 'plan', max_tokens: 9, messages, tools })
  const { results, pending } = await run(messages, answer)
  expect([results, stage.given]).toEqual([[], []])
  await consent(pending[0]?.asks)
  expect(await run(messages, answer)).toMatchObject({ results: [{ type: 'tool_result' }], pending: [] })
  expect(stage.given).toHaveLength(1)
})

it('OpenAI', async () => {
  const { stage, client, options, base } = await open()
  const openai = new OpenAI({ apiKey, baseURL: base })
  const { tools, run } = await chatTools(client, options)
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'Go.' }]
  const { choices } = await openai.chat.completions.create({ model: 'plan', messages, tools })
  const message = choices[0]?.message ?? { role: 'assistant' }
  await consent((await run(messages, message)).pending[0]?.asks)
  expect(await run(messages, message)).toMatchObject({ messages: [{ role: 'tool' }], pending: [] })
  expect(stage.given).toHaveLength(1)
})

it('AI SDK', async () => {
  const { stage, client, options, base } = await open()
  const model = createOpenAICompatible({ name: 'plan', baseURL: base })('plan')
  const { tools, toolApproval } = await aiSdkTools(client, options)
  const prompt: ModelMessage = { role: 'user', content: 'Go.' }
  const stopWhen = isStepCount(9)
  const first = await generateText({ model, tools, toolApproval, messages: [prompt], stopWhen })
  const [asked] = first.content.flatMap((part) => (part.type === 'tool-approval-request' ? [part] : []))
  expect([asked === undefined, stage.given]).toEqual([false, []])
  const [, url = ''] = /^Give access: (\S+)$/.exec(asked?.reason ?? '') ?? []
  await consent([{ kind: 'authorization', url }])
  const approval = {
    type: 'tool-approval-response',
    approvalId: asked?.approvalId ?? '',
    approved: true,
  } as const
  const messages: ModelMessage[] = [prompt, ...first.responseMessages, { role: 'tool', content: [approval] }]
  const { text } = await generateText({ model, tools, toolApproval, messages, stopWhen })
  expect([text, stage.given.length]).toEqual(['All done.', 1])
})

it('OpenAI Agents', async () => {
  const { stage, client, options, base } = await open()
  const modelProvider = new OpenAIProvider({ openAIClient: new OpenAI({ apiKey, baseURL: base }) })
  const { tools, callModelInputFilter, observe, asksOf } = await agentTools(client, options)
  const agent = new Agent({ name: 'Agent', model: 'plan', tools })
  const runner = new Runner({ modelProvider, tracingDisabled: true, callModelInputFilter })
  const stopped = await runner.run(agent, 'Go.')
  expect([stopped.interruptions.length, stage.given]).toEqual([1, []])
  await consent(stopped.interruptions.flatMap((item) => asksOf(item.rawItem)))
  const state = await RunState.fromString(agent, JSON.stringify(stopped.state))
  for (const item of state.getInterruptions()) state.approve(item)
  observe(state.history)
  expect((await runner.run(agent, state)).finalOutput).toBe('All done.')
  expect(stage.given).toHaveLength(1)
})

it('LangGraph', async () => {
  const { stage, client, base } = await open()
  const llm = new ChatOpenAI({ model: 'plan', apiKey, configuration: { baseURL: base } })
  const { tools } = await langchainTools(client)
  const graph = createReactAgent({ llm, tools, checkpointer: new MemorySaver() })
  const config = { configurable: { thread_id: 't1' } }
  await graph.invoke({ messages: [new HumanMessage('Go.')] }, config)
  const [question] = (await graph.getState(config)).tasks.flatMap(({ interrupts }) => interrupts)
  await consent(question?.value.asks)
  const { messages } = await graph.invoke(new Command({ resume: { approved: true } }), config)
  expect([messages.at(-1)?.content, stage.given.length]).toEqual(['All done.', 1])
})

it('Mastra', async () => {
  const { stage, client, options, base } = await open()
  const { tools, processor } = await mastraTools(client, options)
  const agent = new MastraAgent({
    ...{ id: 'agent', name: 'Agent', instructions: 'Help.', tools, inputProcessors: [processor] },
    model: { id: 'plan/plan', url: base, apiKey },
  })
  const own = new Mastra({ agents: { agent }, storage: new InMemoryStore(), logger: false }).getAgent('agent')
  const stopped = await own.generate('Go.')
  expect([stopped.finishReason, stage.given]).toEqual(['suspended', []])
  await consent(stopped.suspendPayload?.suspendPayload?.asks)
  const { text } = await own.resumeGenerate({ approved: true }, { runId: stopped.runId ?? '' })
  expect([text, stage.given.length]).toEqual(['All done.', 1])
})
