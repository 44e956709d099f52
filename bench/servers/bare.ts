import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { ADD_INPUT_SCHEMA, ADD_TOOL, API_KEY } from './add-contract.ts'
import { announce } from './announce.ts'

/**
 * The baseline: the JSON work of one call and nothing else. It checks the API key, reads and parses the
 * body, validates the input with the same schema, adds, and answers in the same shape. It stores nothing.
 */
interface AddCall {
  readonly tool_id: typeof ADD_TOOL
  readonly call_id?: string
  readonly input: { readonly a: number; readonly b: number }
}

const isAddCall = new Ajv2020().compile<{ readonly request: AddCall }>({
  type: 'object',
  properties: {
    request: {
      type: 'object',
      properties: { tool_id: { const: ADD_TOOL }, call_id: { type: 'string' }, input: ADD_INPUT_SCHEMA },
      required: ['tool_id', 'input'],
    },
  },
  required: ['request'],
})

interface Answer {
  readonly status: number
  readonly body: object
}

function send(response: ServerResponse, { status, body }: Answer): void {
  const text = JSON.stringify(body)
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
  response.writeHead(status, headers)
  response.end(text)
}

function call(bodyText: string, startedAt: number): Answer {
  const body: unknown = JSON.parse(bodyText)
  if (!isAddCall(body)) return { status: 422, body: { message: 'The input is invalid.' } }
  const { a, b } = body.request.input
  const result = {
    call_id: body.request.call_id ?? randomUUID(),
    duration: performance.now() - startedAt,
    success: true,
    value: a + b,
  }
  return { status: 200, body: { $schema: 'urn:oxp:1.0', result } }
}

function receive(request: IncomingMessage, response: ServerResponse): void {
  const startedAt = performance.now()
  if (request.headers['x-api-key'] !== API_KEY) {
    send(response, { status: 401, body: { message: 'Unknown API key.' } })
    return
  }
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => send(response, call(Buffer.concat(chunks).toString(), startedAt)))
}

const server = createServer(receive)
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('Expected a TCP address.')
  announce(address.port, () => server.closeAllConnections())
})
