import { rmSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { Secret } from '#kernel/base/secret'
import { requireTools } from '#kernel/tool/prepare-tools'
import { startServer } from '#server/start-server'
import { sqliteSettings, testSettings } from '../test-settings.ts'
import { httpSend } from './http-send.ts'
import { mcpFixtures } from './mcp-fixtures.ts'
import { checkServerVector, readServerVectors, type VectorServer } from './otc-vectors.ts'

const vectors = readServerVectors(new URL('../../vectors/mcp.jsonl', import.meta.url))

async function startProfile(
  profile: string,
  settingsOf: (changes: Partial<Settings>) => Settings,
): Promise<VectorServer> {
  const { tools, runs } = mcpFixtures()
  const settings = settingsOf({ tools: requireTools(tools), auth: authOf(profile) })
  const mcp = {
    ...settings.mcp,
    enabled: profile !== 'off',
    ...(profile.endsWith('pages') ? { pageSize: 4 } : {}),
  }
  const server = await startServer({ ...settings, mcp }, { graceMs: 0 })
  if (profile === 'notready') await server.drain()
  return {
    send: httpSend(server.url),
    runs,
    async close() {
      await server.close()
      rmSync(settings.dataFolder, { recursive: true })
    },
  }
}

function authOf(profile: string): Settings['auth'] {
  if (!profile.includes('key')) return { apiKeys: [], jwt: undefined }
  return {
    apiKeys: [
      { id: 'alice', key: new Secret('k-alice'), tenant: 'default', scopes: ['mail:peek'] },
      { id: 'ann', key: new Secret('k-ann'), tenant: 'default', scopes: [] },
      { id: 'bob', key: new Secret('k-bob'), tenant: 'other', scopes: [] },
    ],
    jwt: undefined,
  }
}

it('finds every vector', () => {
  expect(vectors).toHaveLength(84)
})

describe.each([
  ['memory', testSettings],
  ['SQLite', sqliteSettings],
] as const)('MCP vectors over HTTP, %s store', (_name, settingsOf) => {
  it.each(
    vectors.map((vector) => [vector.id, `${vector.desc} (${vector.refs.join(', ')})`, vector] as const),
  )('%s: %s', async (_id, _description, vector) => {
    expect(await checkServerVector(vector, (profile) => startProfile(profile, settingsOf))).toEqual([])
  })
})
