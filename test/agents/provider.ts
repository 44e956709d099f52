import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * A server that simulates the providers of models: OpenAI (chat completions and responses) and Anthropic. It follows a plan: each
 * message makes the calls of the next entry, and after the last one it answers with a text. Every tool call gets a fresh id, so a
 * loop that starts again sees the same calls under other ids.
 */

interface PlannedCall {
  readonly name: string
  readonly input: object
}

export type Plan = readonly (readonly PlannedCall[])[]

/** What a request to the provider had. */
interface ModelRequest {
  readonly path: string
  // biome-ignore lint/suspicious/noExplicitAny: bodies of three providers, which the tests look into.
  readonly body: any
}

export interface Provider {
  readonly url: string
  readonly requests: ModelRequest[]
  close(): Promise<void>
}

interface ProviderOptions {
  /** Called before each answer; an answer is not sent before it ends. */
  readonly onRequest?: (request: ModelRequest) => Promise<void> | void
}

export async function startProvider(
  plan: Plan | (() => Plan),
  options: ProviderOptions = {},
): Promise<Provider> {
  const requests: ModelRequest[] = []
  const server = createServer(async (request, response) => {
    const asked = { path: request.url ?? '', body: JSON.parse(await readBody(request)) }
    requests.push(asked)
    await options.onRequest?.(asked)
    answer(asked, typeof plan === 'function' ? plan() : plan, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part)
  return Buffer.concat(parts).toString()
}

function answer({ path, body }: ModelRequest, plan: Plan, response: ServerResponse): void {
  const calls = plan[nextOf(plan, callsIn(path, body))]?.map((call) => ({
    ...call,
    id: `call_${randomUUID().slice(0, 12)}`,
  }))
  const isStream = body.stream === true
  if (isStream && path.endsWith('/chat/completions')) {
    response.setHeader('content-type', 'text/event-stream')
    for (const chunk of chatChunks(calls)) response.write(`data: ${JSON.stringify(chunk)}\n\n`)
    response.end('data: [DONE]\n\n')
    return
  }
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify(replyOf(path, calls)))
}

type Calls = readonly (PlannedCall & { readonly id: string })[] | undefined

function replyOf(path: string, calls: Calls): object {
  if (path.endsWith('/chat/completions')) return chatReply(calls)
  return path.endsWith('/responses') ? responsesReply(calls) : anthropicReply(calls)
}

/** The message of the plan that follows the calls in the request; libraries may merge messages that they load. */
function nextOf(plan: Plan, shown: number): number {
  let left = shown
  const next = plan.findIndex((calls) => {
    left -= calls.length
    return left < 0
  })
  return next === -1 ? plan.length : next
}

/** How many tool calls the request shows. */
function callsIn(path: string, body: ModelRequest['body']): number {
  if (path.endsWith('/responses')) {
    const items = Array.isArray(body.input) ? body.input : []
    return items.filter(({ type }: { type?: string }) => type === 'function_call').length
  }
  return body.messages.reduce(
    (sum: number, { tool_calls = [], content }: { tool_calls?: object[]; content?: unknown }) =>
      sum +
      tool_calls.length +
      (Array.isArray(content) ? content.filter(({ type }) => type === 'tool_use').length : 0),
    0,
  )
}

const DONE = 'All done.'

function toolCallsOf(calls: Calls): object[] {
  return (calls ?? []).map(({ id, name, input }, index) => ({
    ...{ index, id, type: 'function' },
    function: { name, arguments: JSON.stringify(input) },
  }))
}

function chatReply(calls: Calls): object {
  const message = calls === undefined ? { content: DONE } : { content: null, tool_calls: toolCallsOf(calls) }
  return {
    ...{ id: `chat-${randomUUID()}`, object: 'chat.completion', created: 1, model: 'plan' },
    choices: [
      {
        index: 0,
        message: { role: 'assistant', ...message },
        finish_reason: calls === undefined ? 'stop' : 'tool_calls',
      },
    ],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  }
}

function chatChunks(calls: Calls): object[] {
  const chunk = { id: `chat-${randomUUID()}`, object: 'chat.completion.chunk', created: 1, model: 'plan' }
  const delta = calls === undefined ? { content: DONE } : { tool_calls: toolCallsOf(calls) }
  const finish_reason = calls === undefined ? 'stop' : 'tool_calls'
  return [
    { ...chunk, choices: [{ index: 0, delta: { role: 'assistant', ...delta }, finish_reason: null }] },
    {
      ...chunk,
      choices: [{ index: 0, delta: {}, finish_reason }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    },
  ]
}

function responsesReply(calls: Calls): object {
  const text = { type: 'output_text', text: DONE, annotations: [] }
  const message = {
    type: 'message',
    id: `msg_${randomUUID()}`,
    role: 'assistant',
    status: 'completed',
    content: [text],
  }
  const output = calls?.map(({ id, name, input }) => ({
    ...{ type: 'function_call', id: `fc_${id}`, call_id: id, name, status: 'completed' },
    arguments: JSON.stringify(input),
  }))
  return {
    ...{ id: `resp_${randomUUID()}`, object: 'response', created_at: 1, model: 'plan', status: 'completed' },
    output: output ?? [message],
    usage: {
      input_tokens: 1,
      output_tokens: 1,
      total_tokens: 2,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    },
  }
}

function anthropicReply(calls: Calls): object {
  const content = calls?.map(({ id, name, input }) => ({ type: 'tool_use', id, name, input }))
  return {
    ...{ id: `msg_${randomUUID()}`, type: 'message', role: 'assistant', model: 'plan', stop_sequence: null },
    stop_reason: calls === undefined ? 'end_turn' : 'tool_use',
    content: content ?? [{ type: 'text', text: DONE }],
    usage: { input_tokens: 1, output_tokens: 1 },
  }
}
