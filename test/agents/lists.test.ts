import type Anthropic from '@anthropic-ai/sdk'
import type { FunctionTool } from '@openai/agents'
import { createGateway, type Gateway, tool } from 'collet'
import { anthropicTools } from 'collet/anthropic'
import { agentTools, chatTools, responseTools } from 'collet/openai'
import type OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { makeShop } from './shop.ts'

/** Lists of tools in the shapes of OpenAI and Anthropic; the assignments are checked against the types of the SDKs. */

let gateway: Gateway
const conversation = 'c1'

beforeAll(async () => {
  gateway = await createGateway({ tools: makeShop().tools, store: 'memory:', log: { level: 'silent' } })
})
afterAll(() => gateway.close())

describe('deferral', () => {
  const favourites = ['Shop_Mail']

  it('is that of Anthropic, with its own search', async () => {
    const { tools } = await anthropicTools(gateway, { conversation, favourites, defer: 'bm25' })
    const typed: Anthropic.ToolUnion[] = tools
    expect(typed[0]).toEqual({ type: 'tool_search_tool_bm25_20251119', name: 'tool_search_tool_bm25' })
    const loaded = typed
      .filter((one) => !('defer_loading' in one))
      .map((one) => ('name' in one ? one.name : ''))
    expect(loaded).toEqual(['tool_search_tool_bm25', 'Shop_Mail', 'read_result'])
  })

  it('is that of the Responses API, with its own search', async () => {
    const { tools } = await responseTools(gateway, { conversation, favourites, defer: true })
    const typed: OpenAI.Responses.Tool[] = tools
    expect(typed[0]).toEqual({ type: 'tool_search' })
    const deferred = typed.filter((one) => 'defer_loading' in one && one.defer_loading === true)
    expect(deferred).toHaveLength(5)
  })

  it('is that of the Agents SDK', async () => {
    const { tools } = await agentTools(gateway, { conversation, favourites, defer: true })
    const typed: FunctionTool[] = tools
    expect(typed.filter(({ deferLoading }) => deferLoading === true)).toHaveLength(5)
  })
})

it('searches in every library that cannot defer', async () => {
  const { tools } = await chatTools(gateway, { conversation, discovery: 'search', favourites: ['Shop.Mail'] })
  const typed: OpenAI.ChatCompletionTool[] = tools
  const names = typed.map((one) => (one.type === 'function' ? one.function.name : ''))
  expect(names).toEqual(['Shop_Mail', 'call_tool', 'describe_tools', 'read_result', 'search_tools'])
})

it('selects tools by name or by a function', async () => {
  const named = await chatTools(gateway, { conversation, only: ['Shop_Mail'] })
  const chosen = await chatTools(gateway, { conversation, only: ({ id }) => id === 'Shop.Mail@1.0.0' })
  expect(named.tools).toEqual(chosen.tools)
  expect(named.tools.map((one) => one.function.name)).toEqual(['Shop_Mail', 'read_result'])
})

it('marks strict tools, and names those that are not', async () => {
  const { tools, notes } = await chatTools(gateway, { conversation, strict: true })
  const mail = tools.find((one) => one.function.name === 'Shop_Mail')
  expect(mail?.function).toMatchObject({ strict: true, parameters: { required: ['to', 'text'] } })
  expect(notes).toContain('Shop.Mail@1.0.0: optional parameters may be null.')
})

it('refuses more tools than OpenAI accepts, and explains what to do', async () => {
  const many = Array.from({ length: 130 }, (_, n) =>
    tool({
      id: `Many.Tool${n}@1.0.0`,
      description: 'One of many.',
      input: {},
      output: z.string(),
      run: () => 'done',
    }),
  )
  const large = await createGateway({ tools: many, store: 'memory:', log: { level: 'silent' } })
  await expect(chatTools(large, { conversation })).rejects.toThrow(
    "OpenAI accepts at most 128 tools, and there are 131. Use { discovery: 'search' }, or select some with { only }.",
  )
  await large.close()
})

it('requires a conversation', async () => {
  const { run } = await chatTools(gateway, { conversation: '' })
  const call = { id: 'x', type: 'function', function: { name: 'Shop_Mail', arguments: '{"to":"ann"}' } }
  const message = { role: 'assistant', tool_calls: [call] }
  await expect(run([], message)).rejects.toThrow('Name the conversation')
})
