import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, isStepCount, type ModelMessage, streamText, toolSearch } from 'ai'
import { createGateway, type Gateway, serve } from 'collet'
import { aiSdkTools } from 'collet/ai-sdk'
import { connect } from 'collet/client'
import { afterEach, describe, expect, it } from 'vitest'
import { type Plan, type Provider, startProvider } from './provider.ts'
import { makeShop, type Shop } from './shop.ts'

/** The tools of a server and of a gateway in loops of the AI SDK, with a server that simulates the provider. */

const APPROVER = { id: 'key:boss', tenant: 'default', scopes: ['approvals:respond'] }
const MAIL = { name: 'Shop_Mail', input: { to: 'ann@example.com' } }
const closing: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

async function openGateway(shop: Shop): Promise<Gateway> {
  const gateway = await createGateway({ tools: shop.tools, store: 'memory:', log: { level: 'silent' } })
  closing.push(() => gateway.close())
  return gateway
}

async function openServer(shop: Shop) {
  const server = await serve({
    tools: shop.tools,
    store: 'memory:',
    server: { port: 0 },
    log: { level: 'silent' },
  })
  closing.push(() => server.close())
  return connect(server.url)
}

async function openModel(
  plan: Plan,
): Promise<{ model: ReturnType<ReturnType<typeof createOpenAICompatible>>; provider: Provider }> {
  const provider = await startProvider(plan)
  closing.push(() => provider.close())
  return { model: createOpenAICompatible({ name: 'plan', baseURL: `${provider.url}/v1` })('plan'), provider }
}

const prompt = { role: 'user', content: 'Go.' } as const satisfies ModelMessage
const stopWhen = isStepCount(9)

describe.each(['server', 'gateway'] as const)('tools of a %s', (kind) => {
  const open = (shop: Shop) => (kind === 'server' ? openServer(shop) : openGateway(shop))

  it('are called once when the loop is run again, and twice for two intended equal calls', async () => {
    const shop = makeShop()
    const source = await open(shop)
    const { model } = await openModel([[MAIL, MAIL], [MAIL]])
    for (const _ of [1, 2]) {
      const { tools } = await aiSdkTools(source, { conversation: 'c1' })
      const { text } = await generateText({ model, tools, messages: [prompt], stopWhen })
      expect(text).toBe('All done.')
    }
    expect(shop.effects).toHaveLength(3)
  })

  it('are called once by a stream and again after it', async () => {
    const shop = makeShop()
    const source = await open(shop)
    const { model } = await openModel([[MAIL, MAIL]])
    const { tools } = await aiSdkTools(source, { conversation: 'c1' })
    for (const _ of [1, 2])
      expect(await streamText({ model, tools, messages: [prompt], stopWhen }).text).toBe('All done.')
    expect(shop.effects).toHaveLength(2)
  })

  it('return images as files, failures as text and long results in part', async () => {
    const source = await open(makeShop())
    const { model } = await openModel([
      [{ name: 'Shop_Photo', input: {} }],
      [{ name: 'Shop_Fail', input: {} }],
      [{ name: 'Shop_Orders', input: {} }],
    ])
    const { tools } = await aiSdkTools(source, { conversation: 'c1' })
    const { responseMessages } = await generateText({ model, tools, messages: [prompt], stopWhen })
    const outputs = responseMessages.flatMap((message) =>
      message.role === 'tool'
        ? message.content.flatMap((part) => (part.type === 'tool-result' ? [part.output] : []))
        : [],
    )
    expect(outputs[0]).toMatchObject({
      type: 'content',
      value: [{ text: 'The shop:' }, { mediaType: 'image/png' }],
    })
    expect(outputs[1]).toMatchObject({ type: 'error-text' })
    expect(JSON.stringify(outputs[1])).not.toContain('secret detail')
    const long = JSON.stringify(outputs[2])
    expect(long.length).toBeLessThan(40_000)
    expect(long).toContain('To read the rest, call read_result')
    const uri = /collet:\/\/calls\/[^ .]+/.exec(long)?.[0]
    const read = await tools.read_result?.execute?.(
      { uri, path: '/orders', offset: 1999 },
      { toolCallId: 'r', messages: [], context: {} },
    )
    expect(JSON.stringify(read)).toContain('items 1999 to 1999 of 2000')
  })

  it('finds a recorded call by its identity, and refuses it with other input', async () => {
    const shop = makeShop()
    const source = await open(shop)
    const pay = (memo: string, again?: number) => ({
      name: 'Shop_Pay',
      input: { invoice_id: '17', memo, ...(again === undefined ? {} : { again }) },
    })
    const { model } = await openModel([
      [pay('first')],
      [pay('first')],
      [pay('reworded')],
      [pay('reworded', 1)],
    ])
    const { tools } = await aiSdkTools(source, { conversation: 'c1' })
    const { responseMessages } = await generateText({ model, tools, messages: [prompt], stopWhen })
    expect(shop.effects).toEqual(['pay 17 first', 'pay 17 reworded'])
    const [, second, third] = responseMessages
      .filter(({ role }) => role === 'tool')
      .map((message) => JSON.stringify(message))
    expect(second).toContain('It did not run again; this is its recorded result.')
    expect(third).toContain(
      'other input was made earlier in this conversation, so this one did not run. It returned: done: pay 17 first',
    )
  })

  it('searches instead of listing', async () => {
    const shop = makeShop()
    const { model, provider } = await openModel([
      [{ name: 'search_tools', input: { query: 'send a mail' } }],
      [{ name: 'call_tool', input: { name: 'Shop_Mail', arguments: { to: 'ann@example.com' } } }],
    ])
    const { tools } = await aiSdkTools(await open(shop), { conversation: 'c1', discovery: 'search' })
    expect(Object.keys(tools)).toEqual(['call_tool', 'describe_tools', 'read_result', 'search_tools'])
    await generateText({ model, tools, messages: [prompt], stopWhen })
    expect(JSON.stringify(provider.requests[1]?.body)).toContain(
      'Shop_Mail(to: string, text?: string): Sends a mail.',
    )
    expect(shop.effects).toEqual(['mail ann@example.com'])
    const call = (name: string, args: object = {}) =>
      tools.call_tool?.execute?.({ name, arguments: args }, { toolCallId: name, messages: [], context: {} })
    expect(JSON.stringify(await call('Shop_Nothing'))).toContain('Find tools with search_tools.')
    const long = JSON.stringify(await call('Shop_Orders'))
    const uri = /collet:\/\/calls\/[^ .]+/.exec(long)?.[0]
    const read = await call('read_result', { uri, path: '/orders', offset: 1999 })
    expect(JSON.stringify(read)).toContain('items 1999 to 1999 of 2000')
  })
})

describe('approvals', () => {
  it('are requested and decided through the SDK', async () => {
    const shop = makeShop()
    const gateway = await openGateway(shop)
    const { model } = await openModel([[{ name: 'Shop_Refund', input: { order: '7' } }]])
    const { tools, toolApproval } = await aiSdkTools(gateway, {
      conversation: 'c1',
      approve: ({ id = '' }) => gateway.approvals.approve(APPROVER, id),
    })
    const first = await generateText({ model, tools, toolApproval, messages: [prompt], stopWhen })
    const asked = first.content.flatMap((part) => (part.type === 'tool-approval-request' ? [part] : []))
    expect(asked).toHaveLength(1)
    expect(shop.effects).toEqual([])
    const approval = {
      type: 'tool-approval-response',
      approvalId: asked[0]?.approvalId ?? '',
      approved: true,
    } as const
    const messages: ModelMessage[] = [
      prompt,
      ...first.responseMessages,
      { role: 'tool', content: [approval] },
    ]
    for (const _ of [1, 2]) {
      const { text } = await generateText({ model, tools, toolApproval, messages, stopWhen })
      expect(text).toBe('All done.')
    }
    expect(shop.effects).toEqual(['refund 7'])
  })
})

describe('histories', () => {
  it('that lost messages repeat a recorded call and report it, or continue counting with the remaining messages', async () => {
    const shop = makeShop()
    const source = await openGateway(shop)
    const { model } = await openModel([[MAIL]])
    const opened = await aiSdkTools(source, { conversation: 'c1' })
    const { responseMessages } = await generateText({
      model,
      tools: opened.tools,
      messages: [prompt],
      stopWhen,
    })
    const again = await generateText({ model, tools: opened.tools, messages: [prompt], stopWhen })
    expect(JSON.stringify(again.responseMessages)).toContain('this is its recorded result')
    expect(shop.effects).toHaveLength(1)
    const earlier = opened.earlier(responseMessages)
    const { tools } = await aiSdkTools(source, { conversation: 'c1', earlier })
    await generateText({ model, tools, messages: [prompt], stopWhen })
    expect(shop.effects).toHaveLength(2)
  })
})

it('defers tools for the search of the SDK', async () => {
  const shop = makeShop()
  const { model, provider } = await openModel([[{ name: 'find', input: { query: 'mail' } }], [MAIL]])
  const { tools } = await aiSdkTools(await openGateway(shop), {
    conversation: 'c1',
    defer: true,
    favourites: ['Shop_Pay'],
  })
  await generateText({ model, tools: { ...tools, find: toolSearch() }, messages: [prompt], stopWhen })
  const names = provider.requests.map(({ body }) =>
    body.tools.map((one: { function: { name: string } }) => one.function.name),
  )
  expect(names[0].sort()).toEqual(['Shop_Pay', 'find', 'read_result'])
  expect(names[1]).toContain('Shop_Mail')
  expect(shop.effects).toHaveLength(1)
})
