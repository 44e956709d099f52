import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js'
import {
  CallToolRequestSchema,
  CompleteRequestSchema,
  ErrorCode,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  McpError,
  ReadResourceRequestSchema,
  ResultSchema,
  type ServerNotification,
  type ServerRequest,
  ServerRequestSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { z } from 'zod'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import {
  completeReference,
  REFERENCE_PROMPTS,
  REFERENCE_RESOURCES,
  REFERENCE_TEMPLATES,
  readReference,
} from './reference-entries.ts'
import {
  type Asks,
  type Job,
  type Question,
  REFERENCE_TOOLS,
  type ReferenceTool,
} from './reference-fixture.ts'
import { listening, type ReferenceServer } from './reference-server.ts'
import { REFERENCE_SKILLS, readSkillFile, SKILL_RESOURCES, SKILLS_CAPABILITY } from './reference-skills.ts'

/*
 * The reference server of the old era: the official SDK v1 with sessions over Streamable HTTP.
 * The conformance run uses it directly and through Collet.
 */

type Extra = RequestHandlerExtra<ServerRequest, ServerNotification>

export async function startLegacyReference(): Promise<ReferenceServer> {
  const transports = new Map<string, StreamableHTTPServerTransport>()
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { host = '', origin = `http://${host}` } = request.headers
    if (!isLocal(host) || !isLocal(origin.replace(/^https?:\/\//, ''))) {
      response.writeHead(403).end()
      return
    }
    const id = request.headers['mcp-session-id']
    const known = typeof id === 'string' ? transports.get(id) : undefined
    if (known !== undefined) return await known.handleRequest(request, response)
    if (id !== undefined) {
      response.writeHead(404, { 'content-type': 'application/json' })
      response.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}')
      return
    }
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (session) => void transports.set(session, transport),
      onsessionclosed: (session) => void transports.delete(session),
    })
    await makeServer().connect(transport)
    await transport.handleRequest(request, response)
  }
  const server = createServer((request, response) => void handle(request, response))
  return await listening(server)
}

function isLocal(host: string): boolean {
  return /^(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?$/.test(host)
}

const taskStore = new InMemoryTaskStore()

/** Sessions that are subscribed to each address. */
const followers = new Map<string, Set<Server>>()

function makeServer(): Server {
  const server = new Server(
    { name: 'reference-legacy', version: '1.0.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { listChanged: true, subscribe: true },
        completions: {},
        logging: {},
        tasks: { requests: { tools: { call: {} } }, list: {}, cancel: {} },
        extensions: SKILLS_CAPABILITY,
      },
      taskStore,
    },
  )
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: REFERENCE_TOOLS.map(({ definition: { inputSchema, ...rest }, behaviour }) => ({
      ...rest,
      ...(needsTask(behaviour) ? { execution: { taskSupport: 'required' as const } } : {}),
      inputSchema: { ...inputSchema, type: 'object' as const },
    })),
  }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    const tool = REFERENCE_TOOLS.find(({ definition }) => definition.name === params.name)
    if (tool === undefined) throw new McpError(ErrorCode.InvalidParams, `Unknown tool: ${params.name}`)
    const input: unknown = params.arguments ?? {}
    return await callTool(server, tool, asInput(input), extra)
  })
  server.setRequestHandler(ListPromptsRequestSchema, () => ({
    prompts: REFERENCE_PROMPTS.map(({ definition }) => definition),
  }))
  server.setRequestHandler(GetPromptRequestSchema, async ({ params }, extra) => {
    const prompt = REFERENCE_PROMPTS.find(({ definition }) => definition.name === params.name)
    if (prompt === undefined) throw new McpError(ErrorCode.InvalidParams, `Unknown prompt: ${params.name}`)
    if (prompt.asks !== undefined) await askAll(server, prompt.asks, {}, extra)
    return { messages: [...prompt.messages(params.arguments ?? {})] }
  })
  server.setRequestHandler(ListResourcesRequestSchema, () => ({
    resources: [...REFERENCE_RESOURCES, ...SKILL_RESOURCES],
  }))
  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: REFERENCE_TEMPLATES,
  }))
  server.setRequestHandler(ReadResourceRequestSchema, ({ params: { uri } }) => {
    const found = readSkillFile(uri) ?? readReference(uri)
    if (found === undefined) throw new McpError(-32_002, `Resource not found: ${uri}`, { uri })
    return { contents: [found] }
  })
  server.setRequestHandler(z.object({ method: z.literal('skills/list') }), () => ({
    skills: [...REFERENCE_SKILLS.entries],
  }))
  const byUri = z.object({ method: z.literal('skills/get'), params: z.object({ uri: z.string() }) })
  server.setRequestHandler(byUri, ({ params: { uri } }) => {
    const skill = REFERENCE_SKILLS.entries.find((entry) => entry.uri === uri)
    if (skill === undefined) throw new McpError(ErrorCode.InvalidParams, `Unknown skill: ${uri}`)
    return { skill }
  })
  server.setRequestHandler(SubscribeRequestSchema, ({ params: { uri } }) => {
    followers.set(uri, new Set(followers.get(uri)).add(server))
    return {}
  })
  server.setRequestHandler(UnsubscribeRequestSchema, ({ params: { uri } }) => {
    followers.get(uri)?.delete(server)
    return {}
  })
  server.setRequestHandler(CompleteRequestSchema, ({ params }) => ({
    completion: completeReference(params.argument.value),
  }))
  return server
}

function asInput(input: unknown): JsonObject {
  const parsed: JsonValue = JSON.parse(JSON.stringify(input))
  return isJsonObject(parsed) ? parsed : {}
}

function needsTask(behaviour: ReferenceTool['behaviour']): boolean {
  return behaviour.kind === 'job' && behaviour.job.needsTask === true
}

async function callTool(server: Server, { behaviour }: ReferenceTool, input: JsonObject, extra: Extra) {
  const textResult = (text: string) => ({ content: [{ type: 'text' as const, text }] })
  switch (behaviour.kind) {
    case 'content':
      return { content: [...behaviour.content] }
    case 'fails':
      return { ...textResult(behaviour.message), isError: true }
    case 'progress': {
      const progressToken = extra._meta?.progressToken
      for (const progress of [0, 50, 100]) {
        if (progressToken !== undefined)
          await extra.sendNotification({
            method: 'notifications/progress',
            params: { progressToken, progress, total: 100 },
          })
        await wait(50)
      }
      return textResult('Done.')
    }
    case 'logs':
      for (const data of behaviour.messages) {
        await extra.sendNotification({ method: 'notifications/message', params: { level: 'info', data } })
        await wait(50)
      }
      return textResult('Logged.')
    case 'changes':
      if (behaviour.list === 'tools') await server.sendToolListChanged()
      else if (behaviour.list === 'prompts') await server.sendPromptListChanged()
      else await server.sendResourceListChanged()
      return textResult('Changed.')
    case 'updates':
      for (const follower of followers.get(behaviour.uri) ?? [])
        await follower.sendResourceUpdated({ uri: behaviour.uri })
      return textResult('Updated.')
    case 'asks':
      return textResult(behaviour.asks.done(await askAll(server, behaviour.asks, input, extra)))
    case 'job': {
      const { job } = behaviour
      const first = job.asksFirst
      const answers = first && (await askAll(server, first, input, extra))
      return job.needsTask === true
        ? await startTask(job, input, answers && first.done(answers), extra)
        : await runJob(server, job, input, extra)
    }
  }
}

async function runJob(server: Server, job: Job, input: JsonObject, extra: Extra) {
  await wait(job.ms(input))
  if (job.end === 'protocol error') throw new McpError(ErrorCode.InternalError, 'The job broke.')
  const later = job.asksLater
  return doneJob(job, input, later?.done(await askAll(server, later, input, extra)))
}

/** The task ends in the background; the SDK answers the requests about it. */
async function startTask(job: Job, input: JsonObject, answers: string | undefined, extra: Extra) {
  const store = extra.taskStore
  if (store === undefined) throw new McpError(ErrorCode.MethodNotFound, 'The tool runs only as a task')
  const task = await store.createTask({ ttl: 60_000, pollInterval: 100 })
  const status = job.end === 'result' ? 'completed' : 'failed'
  void wait(job.ms(input)).then(() =>
    store.storeTaskResult(task.taskId, status, doneJob(job, input, answers)),
  )
  return { task }
}

function doneJob({ says, end }: Job, input: JsonObject, answers: string | undefined) {
  return {
    content: [{ type: 'text' as const, text: [says(input), answers].filter(Boolean).join(' ') }],
    ...(end === 'error result' ? { isError: true } : {}),
  }
}

const NEEDS = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
} as const

async function askAll(server: Server, { rounds, isLenient }: Asks, input: JsonObject, extra: Extra) {
  const answers = new Map<string, JsonValue>()
  const capabilities = server.getClientCapabilities() ?? {}
  for (const round of rounds(input)) {
    const able = round.filter(({ method }) => capabilities[NEEDS[method]] !== undefined)
    const missing = round.find((question) => !able.includes(question))
    if (missing !== undefined && isLenient !== true)
      throw new McpError(ErrorCode.InvalidRequest, `The client has no ${missing.method}`)
    const answered = await Promise.all(able.map((question) => ask(question, extra)))
    for (const [index, { key }] of able.entries()) answers.set(key, asInput(answered[index]))
  }
  return answers
}

/** The key is a name of Collet's, which other clients ignore. */
function ask({ key, method, params }: Question, { sendRequest }: Extra) {
  const named = { ...params, _meta: { 'collet/questionKey': key } }
  return sendRequest(ServerRequestSchema.parse({ method, params: named }), ResultSchema)
}
