import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import type { Settings } from '#config/settings'
import { Secret } from '#kernel/base/secret'
import { openStore } from '#store/stores'
import { sampleTool } from '../../test/contracts/samples.ts'
import { testSettings } from '../../test/test-settings.ts'
import { checkExposure, StartRefused } from './safety.ts'
import { startServer } from './start-server.ts'

const dataFolder = mkdtempSync(join(tmpdir(), 'collet-exposure-'))
afterAll(() => rmSync(dataFolder, { recursive: true }))

const strong = randomBytes(32).toString('base64')
const OPEN: Settings['auth'] = { apiKeys: [], jwt: undefined }
const BY_KEY = (key: string): Settings['auth'] => ({
  apiKeys: [{ id: 'alice', key: new Secret(key), tenant: 'default', scopes: [] }],
  jwt: undefined,
})
const BY_JWT = (secret: string): Settings['auth'] => ({
  apiKeys: [],
  jwt: { secret: new Secret(secret), audiences: [], maxLifetimeSeconds: 900, tenant: 'default' },
})

function settingsOf(host: string, auth: Settings['auth'], tools: Settings['tools'] = []): Settings {
  const changed = testSettings({ tools, auth, dataFolder })
  return { ...changed, server: { ...changed.server, host } }
}

const LOOPBACK = ['127.0.0.1', '127.9.9.9', '::1', 'localhost']
const PUBLIC = ['0.0.0.0', '::', '192.168.0.10', '203.0.113.7', 'tools.example.com', 'localhost.example.com']

describe('checkExposure', () => {
  it.each(PUBLIC)(
    'OTC-97, rule 28: refuses to listen on %s without credentials, and names the remedy',
    (host) => {
      expect(() => checkExposure(settingsOf(host, OPEN), false)).toThrow(StartRefused)
      expect(() => checkExposure(settingsOf(host, OPEN), false)).toThrow(
        /auth\.apiKeys, auth\.jwt or auth\.issuers.*127\.0\.0\.1.*--allow-anonymous/,
      )
    },
  )

  it.each(PUBLIC)('OTC-97: warns if anonymous callers are allowed on %s', (host) => {
    expect(checkExposure(settingsOf(host, OPEN), true)).toEqual([
      expect.objectContaining({ text: expect.stringContaining(`reach ${host} can call`) }),
    ])
  })

  it.each(LOOPBACK)('OTC-97: allows %s without credentials', (host) => {
    expect(checkExposure(settingsOf(host, OPEN), false)).toEqual([])
  })

  it('OTC-97, MCP-12: a key or a JWT secret is enough to serve other machines', () => {
    expect(checkExposure(settingsOf('0.0.0.0', BY_KEY(strong)), false)).toEqual([])
    expect(checkExposure(settingsOf('0.0.0.0', BY_JWT(strong)), false)).toEqual([])
  })

  it('OTC-97: an issuer or `auth.required` is enough to serve other machines', () => {
    expect(checkExposure(settingsOf('0.0.0.0', { ...OPEN, required: true }), false)).toEqual([])
    const claims = { tenant: undefined, scopes: undefined, roles: undefined }
    const issuer = {
      issuer: 'https://a.test',
      audiences: ['x'],
      jwksUri: undefined,
      claims,
      tenant: 'a',
      algorithms: undefined,
    }
    expect(checkExposure(settingsOf('0.0.0.0', { ...OPEN, issuers: [issuer] }), false)).toEqual([])
  })

  it('OWP-57: names allow-list entries that match no tool', () => {
    const apiKeys = BY_KEY(strong).apiKeys.map((entry) => ({
      ...entry,
      tools: ['openwop:Mail.Send', 'openwop:Gone'],
    }))
    const tools = [sampleTool('Mail.Send@1.0.0', () => null)]
    expect(checkExposure(settingsOf('0.0.0.0', { ...OPEN, apiKeys }, tools), false)).toEqual([
      {
        text: expect.stringMatching(/there is no tool "openwop:Gone"/),
        advice: expect.stringContaining('collet tools'),
      },
    ])
  })

  it.each([BY_KEY('k-alice'), BY_JWT('test-secret')])(
    'OTC-103: a weak credential is a warning on loopback and refused elsewhere, also with `allowAnonymous`',
    (auth) => {
      expect(checkExposure(settingsOf('127.0.0.1', auth), false)).toHaveLength(1)
      expect(() => checkExposure(settingsOf('0.0.0.0', auth), true)).toThrow(StartRefused)
    },
  )

  it('names tools that no caller can reach', () => {
    const scoped = sampleTool('Mail.Send@1.0.0', () => null, { policy: { scopes: ['mail:send'] } })
    expect(checkExposure(settingsOf('127.0.0.1', OPEN, [scoped]), false)).toEqual([
      expect.objectContaining({ text: expect.stringContaining('Mail.Send@1.0.0') }),
    ])
    expect(checkExposure(settingsOf('127.0.0.1', BY_KEY(strong), [scoped]), false)).toEqual([])
  })

  it('does not warn about tools that require an approval', () => {
    const asking = sampleTool('Mail.Send@1.0.0', () => null, { policy: { approval: 'always' } })
    expect(checkExposure(settingsOf('0.0.0.0', BY_KEY(strong), [asking]), false)).toEqual([])
  })
})

describe('startServer', () => {
  it('OTC-97: opens no port, store or start token if it refuses to start', async () => {
    await expect(startServer(settingsOf('0.0.0.0', OPEN))).rejects.toThrow(StartRefused)
    expect(readdirSync(dataFolder)).toEqual([])
  })

  it('OTC-97: a key in the store is enough to serve other machines; once it is revoked no caller is accepted', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'collet-keyed-'))
    const url = `sqlite:${join(folder, 'collet.db')}`
    const settings = { ...settingsOf('0.0.0.0', OPEN), dataFolder: folder, masterKey: undefined, store: url }
    const tryIt = async (): Promise<number> => {
      const server = await startServer(settings, { graceMs: 0 })
      try {
        return (await fetch(`${server.url.replace('0.0.0.0', '127.0.0.1')}/tools`)).status
      } finally {
        await server.close()
      }
    }
    const store = await openStore(url, { dataFolder: folder, masterKey: undefined, mode: 'server' })
    try {
      await expect(tryIt()).rejects.toThrow('Make a key with collet keys create')
      expect(readdirSync(folder).some((name) => name.startsWith('start-token'))).toBe(false)
      await store.keys.createKey({
        ...{ tenant: 'default', name: 'ann', keyId: 'k1', digest: 'd', by: 'test', atMs: 1 },
        ...{ scopes: [], roles: [], tools: undefined, label: undefined, expiresAtMs: undefined },
      })
      expect(await tryIt()).toBe(401)
      await store.keys.revokeKey({ tenant: 'default', keyId: 'k1', by: 'test', atMs: 2 })
      expect(await tryIt()).toBe(401)
    } finally {
      await store.close()
      rmSync(folder, { recursive: true })
    }
  })

  it('OTC-97: returns the warning to its caller', async () => {
    const server = await startServer(settingsOf('0.0.0.0', OPEN), { allowAnonymous: true, graceMs: 0 })
    try {
      expect(server.warnings).toEqual([expect.stringContaining('Anyone')])
    } finally {
      await server.close()
    }
  })
})
