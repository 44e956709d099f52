import { describe, expect, it } from 'vitest'
import type { ColletConfig } from './collet-config.ts'
import { ConfigError } from './config-error.ts'
import type { ParsedConfig } from './config-schema.ts'
import { parseConfig } from './parse-config.ts'

const FILE = '/app/collet.config.ts'

function problemsOf(config: unknown): string[] {
  try {
    parseConfig(config, FILE)
  } catch (error) {
    if (error instanceof ConfigError)
      return error.problems.map(({ where, message }) => `${where ?? ''}: ${message}`)
    throw error
  }
  return []
}

describe('parseConfig', () => {
  it('fills in every default', () => {
    expect(parseConfig({}, FILE)).toEqual({
      tools: [],
      toolkits: {},
      server: { host: '127.0.0.1', port: 4100, bodyLimitBytes: 1_048_576, allowedOrigins: [] },
      store: 'sqlite:.collet/collet.db',
      auth: { apiKeys: [] },
      calls: { retentionHours: 24, defaultTimeoutMs: 60_000, maxResultBytes: 1_048_576 },
      journal: { retentionDays: 90 },
      openwop: { catalog: true, compactView: true, sessions: true },
      otc: { strictRequests: false, hideDeveloperMessages: false },
      opentool: { title: 'Collet', stringIdsAreKeys: false, streaming: false },
      approvals: { perTool: {}, webhooks: [], mostParkedPerPrincipal: 100 },
      acknowledgeLaxerVersions: [],
      authoring: { describeParameters: true },
      hooks: {},
      log: { level: 'info' },
      telemetry: {},
    })
  })

  it('takes every documented key', () => {
    const full = {
      tools: ['./tools/*.ts'],
      toolkits: { Calculator: { description: 'Sums.' } },
      server: {
        host: '0.0.0.0',
        port: 0,
        publicUrl: 'https://tools.example.com/',
        bodyLimitBytes: 2048,
        allowedOrigins: ['https://app.example.com'],
      },
      store: 'memory:',
      auth: {
        apiKeys: [{ id: 'alice', key: 'k-alice', tenant: 'acme', scopes: ['mail:*'] }],
        jwt: { secret: 'shared', audiences: ['otcserver'], maxLifetimeSeconds: 60 },
      },
      calls: { retentionHours: 1, defaultTimeoutMs: 10, maxResultBytes: 4096 },
      journal: { retentionDays: 1 },
      openwop: { catalog: true, compactView: false },
      otc: { strictRequests: true, hideDeveloperMessages: true, omitListKey: 'tools' },
      opentool: {
        title: 'Sums',
        version: '2.0.0',
        description: 'What adds up.',
        stringIdsAreKeys: true,
        streaming: true,
      },
      approvals: {
        when: () => false,
        expiresAfterMs: 60_000,
        quorum: 2,
        requiredScope: 'mail:approve',
        selfApproval: true,
        overrideBypassesQuorum: true,
        perTool: { 'Mail.Send': { quorum: 3 } },
        webhooks: [
          { url: 'https://chat.example/hook?k=1', secret: 'w-0123456789abcdef', approver: 'ops@x.y' },
        ],
        mostParkedPerPrincipal: 5,
      },
      acknowledgeLaxerVersions: ['Mail.Send@1.0.0'],
      authoring: { describeParameters: false },
      hooks: { admit: () => undefined, verifyToken: () => true, bindUser: () => true },
      log: { level: 'debug' },
      telemetry: { otlpEndpoint: 'http://127.0.0.1:4318' },
    } satisfies Required<ColletConfig>
    const parsed: ParsedConfig = parseConfig(full, FILE)
    expect(parsed.server.publicUrl).toBe('https://tools.example.com')
    expect(parsed.auth.jwt?.maxLifetimeSeconds).toBe(60)
    expect(parsed.auth.jwt?.secret.reveal()).toBe('shared')
    expect(parsed.auth.apiKeys[0]?.key.reveal()).toBe('k-alice')
    expect(JSON.stringify(parsed)).not.toContain('k-alice')
    expect(parsed.approvals.webhooks[0]?.secret.reveal()).toBe('w-0123456789abcdef')
    expect(JSON.stringify(parsed)).not.toContain('w-0123456789abcdef')
  })

  it('names unknown keys with their path and a suggestion', () => {
    expect(problemsOf({ server: { prot: 1 } })).toEqual(['server: unknown key "prot". Did you mean "port"?'])
    expect(problemsOf({ tolls: [] })).toEqual([': unknown key "tolls". Did you mean "tools"?'])
    expect(problemsOf({ auth: { apiKeys: [{ id: 'a', key: 'k', scope: [] }] } })).toEqual([
      'auth.apiKeys[0]: unknown key "scope". Did you mean "scopes"?',
    ])
  })

  it('points a key on the wrong level to its home', () => {
    expect(problemsOf({ port: 1 })).toEqual([': unknown key "port". Did you mean "server.port"?'])
  })

  it('lists what is known when nothing is near', () => {
    expect(problemsOf({ log: { banana: 1 } })).toEqual(['log: unknown key "banana". Known here: level.'])
  })

  it('OTS-03: says what is wrong with the OpenTool section', () => {
    const opentool = {
      title: '',
      version: 2,
      description: null,
      stringIdsAreKeys: 'yes',
      streaming: 1,
      info: {},
    }
    expect(problemsOf({ opentool }).sort()).toEqual([
      'opentool.description: expected text, got null.',
      'opentool.streaming: expected true or false, got a number.',
      'opentool.stringIdsAreKeys: expected true or false, got text.',
      'opentool.title: must not be empty.',
      'opentool.version: expected text, got a number.',
      'opentool: unknown key "info". Known here: title, version, description, stringIdsAreKeys, streaming.',
    ])
    expect(problemsOf({ opentool: [] })).toEqual(['opentool: expected an object, got a list.'])
    expect(problemsOf({ streaming: true })).toEqual([
      ': unknown key "streaming". Did you mean "opentool.streaming"?',
    ])
  })

  it('gives every problem at once', () => {
    const problems = problemsOf({
      tools: {},
      one: 1,
      two: 2,
      server: { port: '4100', host: '', publicUrl: '/x', allowedOrigins: ['https://a.example/path'] },
      store: 'mysql:x',
      calls: { retentionHours: 1.5 },
      log: { level: 'loud' },
    })
    expect(problems).toHaveLength(10)
    expect(problems).toContain('tools: expected a list, got an object.')
    expect(problems).toContain('server.port: expected a number, got text.')
    expect(problems).toContain('server.host: must not be empty.')
    expect(problems).toContain('calls.retentionHours: expected a whole number, got 1.5.')
    expect(problems).toContain('log.level: expected one of "debug", "info", "warn", "error", "silent".')
  })

  it('wants the openwop switches to be true or false', () => {
    expect(problemsOf({ openwop: { catalog: 'off', compactView: 0 } })).toEqual([
      'openwop.catalog: expected true or false, got text.',
      'openwop.compactView: expected true or false, got a number.',
    ])
    expect(problemsOf({ openwop: { compact: true } })).toEqual([
      'openwop: unknown key "compact". Known here: catalog, compactView, sessions.',
    ])
    expect(problemsOf({ openwop: true })).toEqual(['openwop: expected an object, got true or false.'])
  })

  it('asks whether a variable is set when a key is missing', () => {
    expect(problemsOf({ auth: { apiKeys: [{ id: 'a', key: undefined }] } })[0]).toContain('is that set?')
  })

  it('refuses one key for two principals, without showing it', () => {
    const problems = problemsOf({
      auth: {
        apiKeys: [
          { id: 'a', key: 'very-secret' },
          { id: 'b', key: 'very-secret' },
        ],
      },
    })
    expect(problems).toEqual(['auth.apiKeys[1].key: is the same key as apiKeys[0]; give each entry its own.'])
  })

  it('lets two keys share a principal, for rotation', () => {
    const auth = {
      apiKeys: [
        { id: 'a', key: 'old' },
        { id: 'a', key: 'new' },
      ],
    }
    expect(problemsOf({ auth })).toEqual([])
  })

  it('never repeats a value that may be secret', () => {
    const text = problemsOf({
      store: 'postgres://user:hunter2@db/x',
      auth: { jwt: { secret: 12_345 }, apiKeys: [{ id: 'a', key: 'has space hunter2' }] },
    }).join('\n')
    expect(text).not.toContain('hunter2')
    expect(text).not.toContain('12345')
  })

  it('keeps keys at least as long as results (rule 13)', () => {
    expect(problemsOf({ calls: { retentionHours: 48 }, journal: { retentionDays: 1 } })[0]).toContain(
      'journal.retentionDays: must be at least as long as calls.retentionHours',
    )
  })

  it('refuses anything but an object', () => {
    expect(problemsOf([])).toEqual([': expected an object, got a list.'])
    expect(problemsOf(null)).toEqual([': expected an object, got null.'])
  })
})
