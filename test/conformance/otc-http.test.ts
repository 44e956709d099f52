import { rmSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { requireTools } from '#core/require-tools'
import { Secret } from '#core/secret'
import { startServer } from '#server/start-server'
import { sqliteSettings, testSettings } from '../test-settings.ts'
import { httpSend } from './http-send.ts'
import { OpenApiCheck } from './openapi-check.ts'
import { otcFixtures } from './otc-fixtures.ts'
import { checkServerVector, readServerVectors, type VectorServer } from './otc-vectors.ts'
import { JWT_AUDIENCE, JWT_SECRET } from './vector-jwt.ts'

const openApi = new OpenApiCheck()
const vectors = readServerVectors()

it('finds every server vector', () => {
  expect(vectors).toHaveLength(76)
})

describe.each([
  ['memory', testSettings],
  ['SQLite', sqliteSettings],
] as const)('OTC vectors over HTTP, %s store', (_name, settingsOf) => {
  it.each(
    vectors.map((vector) => [vector.id, `${vector.desc} (${vector.refs.join(', ')})`, vector] as const),
  )('%s: %s', async (_id, _description, vector) => {
    const documented: string[] = []
    const findings = await checkServerVector(vector, (profile) => start(profile, { settingsOf, documented }))
    expect(findings).toEqual([])
    expect(documented).toEqual([])
  })
})

async function start(
  profile: string,
  parts: { readonly settingsOf: (changes: Partial<Settings>) => Settings; readonly documented: string[] },
): Promise<VectorServer> {
  const { tools, runs } = otcFixtures(profile)
  const settings = parts.settingsOf({ tools: requireTools(tools), auth: authOf(profile) })
  const server = await startServer(settings, { graceMs: 0 })
  if (profile === 'notready') await server.drain()
  const send = httpSend(server.url)
  return {
    async send(request) {
      const response = await send(request)
      const { method, path } = request
      parts.documented.push(
        ...openApi.findings({ method, path, status: response.status, text: response.text }),
      )
      return response
    },
    runs,
    async close() {
      await server.close()
      rmSync(settings.dataFolder, { recursive: true })
    },
  }
}

function authOf(profile: string): Settings['auth'] {
  const hasKeys = profile === 'apikey' || profile === 'both'
  const hasJwt = profile === 'jwt' || profile === 'both'
  return {
    apiKeys: hasKeys
      ? ['alice', 'bob'].map((id) => ({ id, key: new Secret(`k-${id}`), tenant: 'default', scopes: [] }))
      : [],
    jwt: hasJwt
      ? {
          secret: new Secret(JWT_SECRET),
          audiences: [JWT_AUDIENCE],
          maxLifetimeSeconds: 900,
          tenant: 'default',
        }
      : undefined,
  }
}
