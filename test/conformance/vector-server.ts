import { rmSync } from 'node:fs'
import type { Settings } from '#config/settings'
import { Secret } from '#kernel/base/secret'
import { requireTools } from '#kernel/tool/prepare-tools'
import { startServer } from '#server/start-server'
import { httpSend } from './http-send.ts'
import { otcFixtures } from './otc-fixtures.ts'
import type { VectorServer } from './otc-vectors.ts'
import { JWT_AUDIENCE, JWT_SECRET } from './vector-jwt.ts'

export interface RunningVectorServer extends VectorServer {
  readonly url: string
}

/** The complete server as `collet serve` starts it, in one of the legend's profiles. */
export async function startVectorServer(
  profile: string,
  settingsOf: (changes: Partial<Settings>) => Settings,
): Promise<RunningVectorServer> {
  const { tools, runs } = otcFixtures(profile)
  const settings = settingsOf({ tools: requireTools(tools), auth: authOf(profile) })
  const server = await startServer(settings, { graceMs: 0 })
  if (profile === 'notready') await server.drain()
  return {
    url: server.url,
    send: httpSend(server.url),
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
