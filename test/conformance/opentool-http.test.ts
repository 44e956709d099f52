import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sqliteSettings, testSettings } from '../test-settings.ts'
import { startOpentoolServer } from './opentool-test-server.ts'
import { findDifferences, type OpentoolServer, readHttpVectors, requestOf } from './opentool-vectors.ts'

const vectors = readHttpVectors()

describe.each([
  ['memory', testSettings],
  ['SQLite', sqliteSettings],
] as const)('OpenTool vectors over HTTP, %s store', (_name, settingsOf) => {
  const servers = new Map<OpentoolServer, Awaited<ReturnType<typeof startOpentoolServer>>>()
  beforeAll(async () => {
    const keys = ['k1', 'k2']
    servers.set('open', await startOpentoolServer({ settingsOf }))
    servers.set('secured', await startOpentoolServer({ settingsOf, keys }))
    servers.set('noload', await startOpentoolServer({ settingsOf, keys, document: undefined }))
  })
  afterAll(async () => {
    for (const server of servers.values()) await server.close()
  })

  it.each(vectors.map((vector) => [vector.id, vector.rule, vector.why, vector] as const))(
    '%s (%s): %s',
    async (_id, _rule, _why, vector) => {
      const answer = await servers.get(vector.server)?.send(requestOf(vector))
      expect(answer && findDifferences(vector, answer)).toEqual([])
    },
  )
})

describe('OpenTool vectors', () => {
  it('exist, and the runner reports a difference', () => {
    expect(vectors.length).toBeGreaterThanOrEqual(28)
    const [vector] = vectors
    const answer = {
      status: 200,
      headers: { 'content-type': 'application/json; charset=utf-8' },
      text: '{"version":"1"}',
    }
    expect(vector && findDifferences(vector, answer)).toHaveLength(1)
  })
})
