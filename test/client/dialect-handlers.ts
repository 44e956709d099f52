import { isJsonObject, type JsonObject } from '#kernel/base/json'
import type { ClientDialect } from '#protocols/otc/codec-client'
import { type RequestHandler, type SeenRequest, sendJson } from './fake-tool-server.ts'

const ARCADE = 'https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json'
const SCHEMA = {
  type: 'object',
  properties: {
    a: { type: 'number', description: 'The first number.' },
    b: { type: 'number', description: 'The second number.' },
  },
  required: ['a', 'b'],
}
const NUMBER = { type: 'number' }
const ADD = { id: 'Calculator.Add@1.0.0', name: 'Calculator_Add', description: 'Adds.', version: '1.0.0' }
const WRAPPED = { ...ADD, input_schema: { parameters: SCHEMA }, output_schema: NUMBER }
const PLAIN = { ...ADD, input_schema: SCHEMA, output_schema: NUMBER }
const DRAFT = {
  ...{ id: ADD.id, name: 'Add', description: 'Adds.' },
  toolkit: { name: 'Calculator', description: 'Numbers.', version: '1.0.0' },
  input: { parameters: SCHEMA, required: ['a', 'b'] },
  output: { available_modes: ['value', 'error'], value: { parameters: NUMBER } },
}

/** Simulated servers that each support one dialect and refuse all others, as their documents allow. */
export const DIALECT_HANDLERS = {
  'otc-1.0': (request, response) => {
    if (isList(request)) return sendJson(response, 200, { $schema: 'otc://1.0', tools: [WRAPPED] })
    const { $schema, request: call } = request.body
    if (request.path !== '/tools/call') return sendJson(response, 404, { message: 'Not Found' })
    if ($schema !== 'otc://1.0' || !isJsonObject(call))
      return sendJson(response, 400, { message: 'Bad request' })
    const result = { call_id: text(call, 'call_id'), success: true, value: sum(call), duration: 2 }
    return sendJson(response, 200, { $schema, result })
  },
  'oxp-1.0': (request, response) => {
    if (isList(request)) return sendJson(response, 200, { $schema: 'urn:oxp:1.0', items: [PLAIN] })
    const { $schema, request: call } = request.body
    if (request.path !== '/tools/call') return sendJson(response, 404, { message: 'Not Found' })
    if ($schema !== 'urn:oxp:1.0' || !isJsonObject(call))
      return sendJson(response, 400, { message: 'Bad request' })
    return sendJson(response, 200, {
      result: { call_id: text(call, 'call_id'), success: true, value: sum(call) },
    })
  },
  'oxp-header': (request, response) => {
    const version = { 'OXP-Version': '1.0' }
    if (isList(request)) return sendJson(response, 200, { items: [PLAIN] }, version)
    const call = request.body
    const isRight = request.headers['oxp-version'] === '1.0' && !('request' in call) && !('$schema' in call)
    if (request.path !== '/tools/call') return sendJson(response, 404, { message: 'Not Found' }, version)
    if (!isRight) return sendJson(response, 400, { message: 'Bad request' }, version)
    return sendJson(
      response,
      200,
      { call_id: text(call, 'call_id'), success: true, value: sum(call) },
      version,
    )
  },
  'rfc-call': (request, response) => {
    if (isList(request)) return sendJson(response, 200, { $schema: ARCADE, tools: [DRAFT] })
    const { $schema, request: call } = request.body
    if (request.path !== '/call') return sendJson(response, 405, {})
    if ($schema !== ARCADE || !isJsonObject(call)) return sendJson(response, 400, { message: 'Bad request' })
    const output = { value: sum(call) }
    return sendJson(response, 200, { $schema, call_id: text(call, 'call_id'), success: true, output })
  },
  execute: (request, response) => {
    if (isList(request)) return sendJson(response, 200, { $schema: ARCADE, tools: [DRAFT] })
    const { request: call } = request.body
    if (request.path !== '/execute') return response.writeHead(404).end('<h1>Not Found</h1>')
    const isRight = isJsonObject(call) && typeof call.execution_id === 'string' && !('call_id' in call)
    if (!isRight) return sendJson(response, 400, { message: 'Bad request' })
    const output = { value: sum(call) }
    return sendJson(response, 200, {
      response: { execution_id: text(call, 'execution_id'), success: true, output },
    })
  },
  uts: (request, response) => {
    const tool = { ...PLAIN, id: 'add@1.0.0', name: 'add' }
    if (isList(request)) return sendJson(response, 200, [tool])
    const { $schema, request: call } = request.body
    if (request.path !== '/tools/call') return sendJson(response, 404, { detail: 'Not Found' })
    if ($schema !== undefined || !isJsonObject(call))
      return sendJson(response, 422, { detail: [{ msg: 'wrong' }] })
    if (call.tool_id !== tool.id) {
      return sendJson(response, 404, { detail: `Tool ${text(call, 'tool_id')} not found` })
    }
    return sendJson(response, 200, { success: true, execution_id: 'made-by-the-server', value: sum(call) })
  },
} satisfies Record<ClientDialect, RequestHandler>

function isList({ method, path }: SeenRequest): boolean {
  return method === 'GET' && path === '/tools'
}

function sum(call: JsonObject): number {
  const input = isJsonObject(call.input) ? call.input : {}
  return Number(input.a) + Number(input.b)
}

function text(members: JsonObject, name: string): string {
  return String(members[name])
}
