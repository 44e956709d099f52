import { createServer } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { toNodeHandler } from '@modelcontextprotocol/node'
import {
  CLIENT_CAPABILITIES_META_KEY,
  createMcpHandler,
  createRequestStateCodec,
  fromJsonSchema,
  isInputRequiredResult,
  type McpHttpHandler,
  McpServer,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ResourceNotFoundError,
  type ServerContext,
} from '@modelcontextprotocol/server'
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
import { REFERENCE_SKILLS, readSkillFile, SKILL_RESOURCES } from './reference-skills.ts'

/*
 * The reference server of the new era: the official SDK v2, 2026-07-28 over HTTP, and the old era without sessions beside it.
 * The conformance run uses it directly and through Collet.
 */

/** Rounds that are answered, as the client returns them. */
interface Progress {
  readonly answers: readonly (readonly [string, JsonValue])[]
  readonly round: number
}

const CODEC = createRequestStateCodec<Progress>({ key: new Uint8Array(32).fill(7) })
const CACHING = { ttlMs: 1_000, cacheScope: 'private' } as const

export async function startModernReference(): Promise<ReferenceServer> {
  const handler: McpHttpHandler = createMcpHandler(() => makeServer(handler))
  const handle = toNodeHandler(handler)
  const server = createServer((request, response) => {
    const { host = '', origin = `http://${host}` } = request.headers
    if ([host, origin.replace(/^https?:\/\//, '')].every(isLocal))
      void handle(
        Object.assign(request, { method: request.method ?? 'POST', url: request.url ?? '/' }),
        response,
      )
    else response.writeHead(403).end()
  })
  return await listening(server)
}

function isLocal(host: string): boolean {
  return /^(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?$/.test(host)
}

function makeServer({ notify }: Pick<McpHttpHandler, 'notify'>): McpServer {
  const made = new McpServer(
    { name: 'reference-modern', version: '1.0.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { listChanged: true, subscribe: true },
        completions: {},
        logging: {},
      },
      requestState: { verify: CODEC.verify },
    },
  )
  // The SDK checks headers of arguments only for tools that are registered with it.
  for (const { definition } of REFERENCE_TOOLS)
    made.registerTool(
      definition.name,
      { description: definition.description, inputSchema: fromJsonSchema(definition.inputSchema) },
      () => ({ content: [] }),
    )
  REFERENCE_SKILLS.attach(made)
  const { server } = made
  server.setRequestHandler('tools/list', () => ({
    tools: REFERENCE_TOOLS.map(({ definition: { inputSchema, ...rest } }) => ({
      ...rest,
      inputSchema: { ...inputSchema, type: 'object' as const },
    })),
    ...CACHING,
  }))
  server.setRequestHandler('tools/call', async ({ params }, context) => {
    const tool = REFERENCE_TOOLS.find(({ definition }) => definition.name === params.name)
    if (tool === undefined) throw new ProtocolError(-32_602, `Unknown tool: ${params.name}`)
    return await callTool(tool, asObject(params.arguments), context, notify)
  })
  server.setRequestHandler('prompts/list', () => ({
    prompts: REFERENCE_PROMPTS.map(({ definition }) => definition),
    ...CACHING,
  }))
  server.setRequestHandler('prompts/get', async ({ params }, context) => {
    const prompt = REFERENCE_PROMPTS.find(({ definition }) => definition.name === params.name)
    if (prompt === undefined) throw new ProtocolError(-32_602, `Unknown prompt: ${params.name}`)
    const step = prompt.asks === undefined ? undefined : await nextStep(prompt.asks, {}, context)
    if (isInputRequiredResult(step)) return step
    return { messages: [...prompt.messages(params.arguments ?? {})] }
  })
  server.setRequestHandler('resources/list', () => ({
    resources: [...REFERENCE_RESOURCES, ...SKILL_RESOURCES],
    ...CACHING,
  }))
  server.setRequestHandler('resources/templates/list', () => ({
    resourceTemplates: REFERENCE_TEMPLATES,
    ...CACHING,
  }))
  server.setRequestHandler('resources/read', ({ params: { uri } }) => {
    const found = readSkillFile(uri) ?? readReference(uri)
    if (found === undefined) throw new ResourceNotFoundError(uri)
    return { contents: [found], ...CACHING }
  })
  server.setRequestHandler('completion/complete', ({ params }) => ({
    completion: completeReference(params.argument.value),
  }))
  return made
}

function asObject(value: unknown): JsonObject {
  const parsed: JsonValue = JSON.parse(JSON.stringify(value ?? {}))
  return isJsonObject(parsed) ? parsed : {}
}

async function callTool(
  { behaviour }: ReferenceTool,
  input: JsonObject,
  context: ServerContext,
  notify: McpHttpHandler['notify'],
) {
  const textResult = (text: string) => ({ content: [{ type: 'text' as const, text }] })
  const { mcpReq } = context
  switch (behaviour.kind) {
    case 'content':
      return { content: [...behaviour.content] }
    case 'fails':
      return { ...textResult(behaviour.message), isError: true }
    case 'progress': {
      const progressToken = mcpReq._meta?.progressToken
      for (const progress of [0, 50, 100]) {
        if (progressToken !== undefined)
          await mcpReq.notify({
            method: 'notifications/progress',
            params: { progressToken, progress, total: 100 },
          })
        await wait(50)
      }
      return textResult('Done.')
    }
    case 'logs':
      for (const message of behaviour.messages) {
        await mcpReq.log('info', message)
        await wait(50)
      }
      return textResult('Logged.')
    case 'changes':
      if (behaviour.list === 'tools') notify.toolsChanged()
      else if (behaviour.list === 'prompts') notify.promptsChanged()
      else notify.resourcesChanged()
      return textResult('Changed.')
    case 'updates':
      notify.resourceUpdated(behaviour.uri)
      return textResult('Updated.')
    case 'asks': {
      const step = await nextStep(behaviour.asks, input, context)
      return isInputRequiredResult(step) ? step : textResult(behaviour.asks.done(step))
    }
    case 'job':
      return await runJob(behaviour.job, input, context)
  }
}

async function runJob(job: Job, input: JsonObject, context: ServerContext) {
  const { asksFirst, asksLater, end } = job
  const asks = asksFirst ?? asksLater
  if (asksFirst === undefined) await wait(job.ms(input))
  const step = asks && (await nextStep(asks, input, context))
  if (isInputRequiredResult(step)) return step
  if (asksFirst !== undefined) await wait(job.ms(input))
  if (end === 'protocol error') throw new ProtocolError(-32_603, 'The job broke.')
  const answers = step === undefined ? '' : ` ${asks?.done(step)}`
  return {
    content: [{ type: 'text' as const, text: `${job.says(input)}${answers}` }],
    ...(end === 'error result' ? { isError: true } : {}),
  }
}

const CAPABILITIES = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
} as const

/** The next questions, or all answers. */
async function nextStep({ rounds, isLenient }: Asks, input: JsonObject, { mcpReq }: ServerContext) {
  const { round, answers } = mcpReq.requestState<Progress>() ?? { round: 0, answers: [] }
  const declared = asObject(asObject(mcpReq.envelope)[CLIENT_CAPABILITIES_META_KEY])
  const known = new Map(answers)
  for (const [key, answer] of Object.entries(mcpReq.inputResponses ?? {})) known.set(key, asObject(answer))
  const all = rounds(input)
  for (const [index, questions] of all.entries()) {
    const able = questions.filter(({ method }) => declared[CAPABILITIES[method]] !== undefined)
    const missing = questions.find((question) => !able.includes(question))
    if (missing !== undefined && isLenient !== true)
      throw new MissingRequiredClientCapabilityError({
        requiredCapabilities: { [CAPABILITIES[missing.method]]: {} },
      })
    const open = able.filter((question) => !isAnswer(question, known.get(question.key)))
    if (open.length === 0) continue
    const valid = [...known].filter(([key]) => all.flat().some((question) => question.key === key))
    const requestState = await CODEC.mint({ round: Math.max(round, index) + 1, answers: valid })
    const inputRequests = Object.fromEntries(open.map(({ key, method, params }) => [key, { method, params }]))
    const asked: unknown = { resultType: 'input_required', inputRequests, requestState }
    if (!isInputRequiredResult(asked)) throw new Error('the fixture asks a malformed question')
    return asked
  }
  return known
}

function isAnswer({ method, params }: Question, answer: JsonValue | undefined): boolean {
  if (!isJsonObject(answer)) return false
  if (method === 'roots/list') return Array.isArray(answer.roots)
  if (method === 'sampling/createMessage') return answer.content !== undefined && answer.role !== undefined
  if (answer.action !== 'accept') return typeof answer.action === 'string'
  const { requestedSchema } = params
  if (!isJsonObject(requestedSchema)) return false
  const checked = fromJsonSchema(requestedSchema)['~standard'].validate(answer.content)
  return !(checked instanceof Promise) && checked.issues === undefined
}
