import { describe, expect, it } from 'vitest'
import { otcRoutes } from '#protocols/otc/routes'
import { FakeGateway, fakeTool } from './fake-gateway.ts'
import { OpenApiCheck } from './openapi-check.ts'
import { otcFixtures } from './otc-fixtures.ts'
import { checkServerVector, readServerVectors, type VectorServer } from './otc-vectors.ts'
import { routeSend } from './route-server.ts'

const openApi = new OpenApiCheck()

describe('OTC vectors through the routes', () => {
  const vectors = readServerVectors()

  it('reads every server vector', () => {
    expect(vectors).toHaveLength(76)
  })

  it.each(
    vectors.map((vector) => [vector.id, `${vector.desc} (${vector.refs.join(', ')})`, vector] as const),
  )('%s: %s', async (_id, _description, vector) => {
    const documented: string[] = []
    expect(await checkServerVector(vector, (profile) => start(profile, documented))).toEqual([])
    expect(documented).toEqual([])
  })
})

async function start(profile: string, documented: string[]): Promise<VectorServer> {
  const { tools, runs } = otcFixtures(profile)
  const gateway = new FakeGateway({ tools: tools.map(fakeTool), ready: profile !== 'notready' })
  const send = routeSend(otcRoutes(gateway, { serverVersion: '0.0.0-test' }), {
    apiKeys: profile === 'apikey' || profile === 'both',
    jwt: profile === 'jwt' || profile === 'both',
    onAnswer: ({ method, path }, { status, text }) =>
      documented.push(...openApi.findings({ method, path, status, text })),
  })
  return { send, runs, close: async () => {} }
}
