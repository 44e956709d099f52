import { randomUUID } from 'node:crypto'
import { fastify } from 'fastify'
import { ADD_INPUT_SCHEMA, ADD_TOOL, API_KEY } from './add-contract.ts'
import { announce } from './announce.ts'

/** The add call on Fastify as its users write it: a hook for the key, schemas for the input and for the reply. */
interface AddCall {
  readonly request: {
    readonly call_id?: string
    readonly input: { readonly a: number; readonly b: number }
  }
}

const BODY = {
  type: 'object',
  properties: {
    request: {
      type: 'object',
      properties: { tool_id: { const: ADD_TOOL }, call_id: { type: 'string' }, input: ADD_INPUT_SCHEMA },
      required: ['tool_id', 'input'],
    },
  },
  required: ['request'],
}

const REPLY = {
  type: 'object',
  properties: {
    $schema: { type: 'string' },
    result: {
      type: 'object',
      properties: {
        call_id: { type: 'string' },
        duration: { type: 'number' },
        success: { type: 'boolean' },
        value: { type: 'number' },
      },
    },
  },
}

const server = fastify()
server.addHook('onRequest', (request, reply, done) => {
  if (request.headers['x-api-key'] === API_KEY) done()
  else void reply.code(401).send({ message: 'Unknown API key.' })
})
server.post<{ Body: AddCall }>(
  '/tools/call',
  { schema: { body: BODY, response: { 200: REPLY } } },
  (request, reply) => {
    const startedAt = performance.now()
    const { call_id = randomUUID(), input } = request.body.request
    const result = {
      call_id,
      duration: performance.now() - startedAt,
      success: true,
      value: input.a + input.b,
    }
    void reply.send({ $schema: 'urn:oxp:1.0', result })
  },
)

const url = await server.listen({ host: '127.0.0.1', port: 0 })
announce(Number(new URL(url).port), () => server.close())
