// A minimal server on Fastify, in plain JavaScript as its users run it. The cold start of Collet is compared with it.
import { fastify } from 'fastify'

const server = fastify()
server.get('/', async () => ({ hello: 'world' }))
await server.listen({ host: '127.0.0.1', port: Number(process.argv[2]) })
