import { describe, expect, it } from 'vitest'
import { sqliteSettings, testSettings } from '../test-settings.ts'
import { OpenApiCheck } from './openapi-check.ts'
import { checkServerVector, readServerVectors } from './otc-vectors.ts'
import { startVectorServer } from './vector-server.ts'

const openApi = new OpenApiCheck()
const vectors = readServerVectors()

it('finds every server vector', () => {
  expect(vectors).toHaveLength(79)
})

describe.each([
  ['memory', testSettings],
  ['SQLite', sqliteSettings],
] as const)('OTC vectors over HTTP, %s store', (_name, settingsOf) => {
  it.each(
    vectors.map((vector) => [vector.id, `${vector.desc} (${vector.refs.join(', ')})`, vector] as const),
  )('%s: %s', async (_id, _description, vector) => {
    const undocumented: string[] = []
    const findings = await checkServerVector(vector, async (profile) => {
      const server = await startVectorServer(profile, settingsOf)
      return {
        ...server,
        async send(request) {
          const response = await server.send(request)
          undocumented.push(...openApi.findings({ ...request, ...response }))
          return response
        },
      }
    })
    expect(findings).toEqual([])
    expect(undocumented).toEqual([])
  })
})
