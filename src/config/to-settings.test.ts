import { describe, expect, it } from 'vitest'
import { readEnvironment } from './environment.ts'
import { parseConfig } from './load.ts'
import { type SettingsFlags, toSettings } from './to-settings.ts'

function settingsOf(config: unknown, flags: SettingsFlags = {}, variables: Record<string, string> = {}) {
  const file = '/app/collet.config.ts'
  return toSettings({
    loaded: { file, folder: '/app', config: parseConfig(config, file) },
    tools: [],
    flags,
    environment: readEnvironment(variables),
    workingFolder: '/home/me',
  })
}

describe('toSettings', () => {
  it('refuses approval terms of an unknown tool', () => {
    expect(() => settingsOf({ approvals: { perTool: { 'Mail.Snd': { quorum: 2 } } } })).toThrow(
      /approvals\.perTool\.Mail\.Snd: there is no such tool/,
    )
  })

  it('sends links that decide only over https or to loopback', () => {
    const hook = (url: string, approver?: string) => () =>
      settingsOf({ approvals: { webhooks: [{ url, secret: 'w-0123456789abcdef', approver }] } })
    expect(hook('http://chat.example/hook', 'ann')).toThrow(/webhooks.*https/)
    expect(hook('https://chat.example/hook', 'ann')).not.toThrow()
    expect(hook('http://127.0.0.1:9/hook', 'ann')).not.toThrow()
    expect(hook('http://chat.example/hook')).not.toThrow()
  })

  it('MCP-155: adds a provider for an MCP server that names its authorization server, unless there is one', () => {
    const url = 'https://tracker.example/mcp'
    const sources = { Tracker: { type: 'mcp', url, authorization: {} } }
    expect(settingsOf({ sources }).oauth.providers).toMatchObject({ Tracker: { resource: url } })
    const providers = { Tracker: { resource: url, clientId: 'known' } }
    expect(settingsOf({ sources, oauth: { providers } }).oauth.providers).toMatchObject(providers)
    const plain = { Tracker: { type: 'mcp', url: 'http://127.evil.example/mcp', authorization: {} } }
    expect(() => settingsOf({ sources: plain })).toThrow(/needs an https URL/)
  })

  it('puts the default store next to the config', () => {
    const settings = settingsOf({})
    expect(settings).toMatchObject({
      store: 'sqlite:/app/.collet/collet.db',
      dataFolder: '/app/.collet',
      masterKey: undefined,
      server: { host: '127.0.0.1', port: 4100 },
      logLevel: 'info',
      otlpEndpoint: undefined,
      otlp: { metricsIntervalMs: 60_000 },
    })
    expect(settings.server.publicUrl).toBeUndefined()
  })

  it('passes on the openwop switches', () => {
    expect(settingsOf({}).openwop).toEqual({
      catalog: true,
      compactView: true,
      vendor: 'local',
      sessions: true,
    })
    expect(settingsOf({ openwop: { catalog: false, sessions: false } }).openwop).toEqual({
      catalog: false,
      compactView: true,
      vendor: 'local',
      sessions: false,
    })
  })

  it('prefers flags, whose paths are relative to the working folder', () => {
    const settings = settingsOf(
      { store: 'memory:', server: { host: '::1', port: 1 } },
      { host: '127.0.0.2', port: 0, store: 'sqlite:x.db' },
    )
    expect(settings.server).toMatchObject({ host: '127.0.0.2', port: 0 })
    expect(settings.store).toBe('sqlite:/home/me/x.db')
  })

  it('prefers environment variables to the file', () => {
    const key = Buffer.alloc(32, 1)
    const settings = settingsOf(
      { log: { level: 'debug' }, telemetry: { otlpEndpoint: 'http://a.example:1' } },
      {},
      {
        COLLET_LOG_LEVEL: 'error',
        OTEL_EXPORTER_OTLP_ENDPOINT: 'http://b.example:2',
        COLLET_KEY: key.toString('base64'),
      },
    )
    expect(settings.logLevel).toBe('error')
    expect(settings.otlpEndpoint).toBe('http://b.example:2')
    expect(settings.masterKey).toEqual(new Uint8Array(key))
  })

  it('reports the problem of a variable', () => {
    expect(() => settingsOf({}, {}, { COLLET_LOG_LEVEL: 'wran' })).toThrow(
      'COLLET_LOG_LEVEL: expected one of',
    )
    expect(() => settingsOf({}, {}, { COLLET_LOG_LEVEL: 'wran' })).toThrow('Did you mean "warn"?')
    expect(() => settingsOf({}, {}, { OTEL_EXPORTER_OTLP_ENDPOINT: 'x' })).toThrow(
      'OTEL_EXPORTER_OTLP_ENDPOINT',
    )
    expect(() => settingsOf({}, {}, { COLLET_KEY: 'x' })).toThrow('COLLET_KEY')
  })

  it('OTS-32: uses the version of the package for OpenTool by default', () => {
    expect(settingsOf({}).opentool).toEqual({
      title: 'Collet',
      version: undefined,
      description: undefined,
      stringIdsAreKeys: false,
      streaming: false,
    })
    const opentool = {
      title: 'Sums',
      version: '2',
      description: 'D.',
      stringIdsAreKeys: true,
      streaming: true,
    }
    expect(settingsOf({ opentool }).opentool).toEqual(opentool)
  })

  it('gives tokens the default tenant and toolkits as a map', () => {
    const settings = settingsOf({ auth: { jwt: { secret: 's' } }, toolkits: { A: { description: 'D.' } } })
    expect(settings.auth.jwt).toMatchObject({ tenant: 'default', audiences: [], maxLifetimeSeconds: 900 })
    expect([...settings.toolkits]).toEqual([['A', 'D.']])
  })
})
