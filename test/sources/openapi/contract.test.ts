import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { SOURCE_CONTRACT, type SourceUnderTest } from '../../contracts/source-contract.ts'
import { openSource } from './imported-api.ts'
import { startRecordingServer } from './recording-server.ts'

const DOCUMENT = {
  openapi: '3.1.0',
  info: { title: 'Shop', version: '1' },
  paths: {
    '/orders/{id}': {
      get: {
        operationId: 'readOrder',
        parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }],
        responses: {
          200: { description: 'ok', content: { 'application/json': { schema: { type: 'object' } } } },
        },
      },
      delete: {
        operationId: 'deleteOrder',
        parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }],
        responses: { 204: { description: 'gone' } },
      },
    },
  },
  security: [{ key: [] }],
  components: { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } },
}

/** A real service that publishes its own document. */
async function open(): Promise<SourceUnderTest> {
  const server = await startRecordingServer()
  server.answer(({ url, method }) => {
    if (url === '/openapi.json') return { body: JSON.stringify(DOCUMENT) }
    return method === 'DELETE' ? 'hang' : { body: JSON.stringify({ url }) }
  })
  const folder = mkdtempSync(join(tmpdir(), 'collet-openapi-'))
  const opened = openSource({ url: `${server.origin}/openapi.json` }, { allow: [server.host], folder })
  return {
    source: opened.source,
    good: {
      nativeName: 'readOrder',
      input: { id: 'a/b' },
      check: (value) => expect(value).toEqual({ url: '/orders/a%2Fb' }),
    },
    slow: { nativeName: 'deleteOrder', input: { id: '1' } },
    credentials: { api_key: 'token' },
    stop: () => server.close(),
    close: async () => {
      await opened.close()
      await server.close()
      rmSync(folder, { recursive: true })
    },
  }
}

describe('the contract of a source', () => {
  it.each(SOURCE_CONTRACT)('$name', ({ run }) => run(open))
})
