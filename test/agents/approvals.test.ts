import Anthropic from '@anthropic-ai/sdk'
import { HumanMessage } from '@langchain/core/messages'
import { Command, MemorySaver } from '@langchain/langgraph'
import { createReactAgent } from '@langchain/langgraph/prebuilt'
import { ChatOpenAI } from '@langchain/openai'
import { Mastra } from '@mastra/core'
import { Agent as MastraAgent } from '@mastra/core/agent'
import { InMemoryStore } from '@mastra/core/storage'
import { Agent, OpenAIProvider, Runner, RunState } from '@openai/agents'
import { createGateway } from 'collet'
import { anthropicTools } from 'collet/anthropic'
import { langchainTools } from 'collet/langchain'
import { mastraTools } from 'collet/mastra'
import { agentTools, chatTools, responseTools } from 'collet/openai'
import OpenAI from 'openai'
import { afterEach, expect, it } from 'vitest'
import { startProvider } from './provider.ts'
import { makeShop } from './shop.ts'

/** A call that a person has to approve, requested through each library. */

const APPROVER = { id: 'key:boss', tenant: 'default', scopes: ['approvals:respond'] }
const REFUND = { name: 'Shop_Refund', input: { order: '7' } }
const apiKey = 'a-key'
const closing: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

async function open(plan = [[REFUND]]) {
  const shop = makeShop()
  const gateway = await createGateway({ tools: shop.tools, store: 'memory:', log: { level: 'silent' } })
  const provider = await startProvider(plan)
  closing.push(
    () => gateway.close(),
    () => provider.close(),
  )
  const approve = ({ id = '' }) => gateway.approvals.approve(APPROVER, id)
  const options = { conversation: 'c1', approve } as const
  return { shop, gateway, provider, options }
}

it('Anthropic: pending calls are listed, and the same answer runs after the decision', async () => {
  const { shop, gateway, provider, options } = await open()
  const client = new Anthropic({ apiKey, baseURL: provider.url })
  const { tools, run } = await anthropicTools(gateway, options)
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'Go.' }]
  const answer = await client.messages.create({ model: 'plan', max_tokens: 9, messages, tools })
  const { results, pending } = await run(messages, answer)
  expect(results).toEqual([])
  expect(pending).toMatchObject([{ ...REFUND, asks: [{ kind: 'approval' }] }])
  expect(shop.effects).toEqual([])
  const made = await run(messages, answer, { approved: pending.map(({ id }) => id) })
  expect(made).toMatchObject({ results: [{ type: 'tool_result' }], pending: [] })
  expect(shop.effects).toEqual(['refund 7'])
})

it('OpenAI: both APIs list pending calls', async () => {
  const { gateway, provider, options } = await open()
  const client = new OpenAI({ apiKey, baseURL: `${provider.url}/v1` })
  const chat = await chatTools(gateway, options)
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'Go.' }]
  const { choices } = await client.chat.completions.create({ model: 'plan', messages, tools: chat.tools })
  const asked = await chat.run(messages, choices[0]?.message ?? { role: 'assistant' })
  expect(asked).toMatchObject({ messages: [], pending: [{ asks: [{ kind: 'approval' }] }] })
  const responses = await responseTools(gateway, options)
  const { output } = await client.responses.create({ model: 'plan', input: 'Go.', tools: responses.tools })
  expect(await responses.run('Go.', output)).toMatchObject({
    items: [],
    pending: [{ asks: [{ kind: 'approval' }] }],
  })
})

it('OpenAI Agents: an interruption, resumed from its saved state', async () => {
  const { shop, gateway, provider, options } = await open()
  const openAIClient = new OpenAI({ apiKey, baseURL: `${provider.url}/v1` })
  const start = async () => {
    const { tools, callModelInputFilter, observe } = await agentTools(gateway, options)
    const agent = new Agent({ name: 'Agent', model: 'plan', tools })
    const modelProvider = new OpenAIProvider({ openAIClient })
    return {
      agent,
      observe,
      runner: new Runner({ modelProvider, tracingDisabled: true, callModelInputFilter }),
    }
  }
  const first = await start()
  const stopped = await first.runner.run(first.agent, 'Go.')
  expect(stopped.interruptions).toHaveLength(1)
  expect(shop.effects).toEqual([])
  const written = JSON.stringify(stopped.state)
  const second = await start()
  const state = await RunState.fromString(second.agent, written)
  for (const item of state.getInterruptions()) state.approve(item)
  await expect(second.runner.run(second.agent, state)).rejects.toThrow('call `observe(state.history)`')
  const third = await start()
  const again = await RunState.fromString(third.agent, written)
  for (const item of again.getInterruptions()) again.approve(item)
  third.observe(again.history)
  expect((await third.runner.run(third.agent, again)).finalOutput).toBe('All done.')
  expect(shop.effects).toEqual(['refund 7'])
})

it('LangGraph: an interrupt for each of two calls, whose answers name them', async () => {
  const OTHER = { name: 'Shop_Refund', input: { order: '8' } }
  const { shop, gateway, provider, options } = await open([[REFUND, OTHER]])
  const llm = new ChatOpenAI({ model: 'plan', apiKey, configuration: { baseURL: `${provider.url}/v1` } })
  const { tools } = await langchainTools(gateway, { approve: options.approve })
  const graph = createReactAgent({ llm, tools, checkpointer: new MemorySaver() })
  const config = { configurable: { thread_id: 't1' } }
  await graph.invoke({ messages: [new HumanMessage('Go.')] }, config)
  const asked = async () =>
    (await graph.getState(config)).tasks.flatMap(({ interrupts }) => interrupts.map(({ value }) => value))
  for (let rounds = 0; (await asked()).length > 0; rounds += 1) {
    expect(rounds).toBeLessThan(3)
    const [question] = await asked()
    const isFirst = question.input.order === '7'
    await graph.invoke(
      new Command({ resume: isFirst ? { approved: [question.id] } : { denied: [question.id] } }),
      config,
    )
  }
  expect(shop.effects).toEqual(['refund 7'])
  const { messages } = (await graph.getState(config)).values
  expect(JSON.stringify(messages)).toContain('The user did not allow this call.')
})

it('Mastra: a suspended run that is resumed', async () => {
  const { shop, gateway, provider, options } = await open()
  const { tools, processor } = await mastraTools(gateway, options)
  const model = { id: 'plan/plan', url: `${provider.url}/v1`, apiKey } as const
  const agent = new MastraAgent({
    ...{ id: 'agent', name: 'Agent', instructions: 'Help.', tools, inputProcessors: [processor], model },
  })
  const mastra = new Mastra({ agents: { agent }, storage: new InMemoryStore(), logger: false })
  const own = mastra.getAgent('agent')
  const stopped = await own.generate('Go.')
  expect(stopped.finishReason).toBe('suspended')
  expect(stopped.suspendPayload).toMatchObject({
    suspendPayload: { tool: 'Shop_Refund', asks: [{ kind: 'approval' }] },
  })
  expect(shop.effects).toEqual([])
  const { runId = '' } = stopped
  const { text } = await own.resumeGenerate({ approved: true }, { runId })
  expect(text).toBe('All done.')
  expect(shop.effects).toEqual(['refund 7'])
})
