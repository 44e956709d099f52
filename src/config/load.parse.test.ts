import { describe, expect, it } from 'vitest'
import type { ColletConfig } from './config.ts'
import { ConfigError, parseConfig } from './load.ts'
import type { ParsedConfig } from './schema.ts'

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
  it('adds every default', () => {
    expect(parseConfig({}, FILE)).toEqual({
      tools: [],
      toolkits: {},
      toolsets: {},
      sources: {},
      server: {
        host: '127.0.0.1',
        port: 4100,
        bodyLimitBytes: 1_048_576,
        allowedOrigins: [],
        maxConnections: 10_000,
        drainMs: 2_000,
      },
      store: 'sqlite:.collet/collet.db',
      auth: { apiKeys: [], issuers: [], roles: {}, required: false },
      oauth: { providers: {}, allowUnboundConsent: false },
      console: { enabled: true },
      calls: { retentionHours: 24, defaultTimeoutMs: 60_000, maxResultBytes: 16 * 1_048_576 },
      results: { modelBytes: 32_000 },
      journal: { retentionDays: 90 },
      egress: { allow: [], maxResponseBytes: 10_485_760, timeoutMs: 30_000, maxRedirects: 5 },
      limits: {
        perPrincipal: {},
        perTool: { perPrincipal: {} },
        byPrincipal: {},
        byTool: {},
        total: { concurrent: 1_000, pendingWrites: 5_000, delayMs: 500, bodyBytes: 67_108_864 },
        waiting: { perPrincipal: 100, total: 1_000, longestSeconds: 60 },
      },
      budgets: [],
      openwop: { catalog: true, compactView: true, vendor: 'local', sessions: true },
      otc: { strictRequests: false, hideDeveloperMessages: false },
      opentool: { title: 'Collet', stringIdsAreKeys: false, streaming: false },
      mcp: { enabled: true, name: 'collet', pageSize: 1_000, taskAfterMs: 800 },
      approvals: { perTool: {}, webhooks: [], maxParkedPerPrincipal: 100 },
      ...{ webhooks: [], alerts: [] },
      acknowledgeLaxerVersions: [],
      authoring: { describeParameters: true },
      hooks: {},
      search: { learn: true },
      log: { level: 'info', format: 'auto' },
      telemetry: { exports: ['traces', 'metrics'], metricsIntervalMs: 60_000, tenantLabel: false },
    })
  })

  it('accepts every documented key', () => {
    const full = {
      tools: ['./tools/*.ts'],
      toolkits: { Calculator: { description: 'Sums.' } },
      toolsets: {
        sums: { description: 'Sums.', include: ['Calculator.*'], exclude: ['tag:old'], tier: 'read' },
      },
      server: {
        host: '0.0.0.0',
        port: 0,
        publicUrl: 'https://tools.example.com/',
        bodyLimitBytes: 2048,
        allowedOrigins: ['https://app.example.com'],
        metricsPort: 9_100,
        metricsHost: '0.0.0.0',
        maxConnections: 100,
      },
      store: 'memory:',
      auth: {
        apiKeys: [
          {
            id: 'alice',
            key: 'k-alice',
            tenant: 'acme',
            scopes: ['mail:*'],
            roles: ['viewer'],
            tools: ['openwop:Mail.Send'],
            expiresAt: '2027-01-31T00:00:00Z',
            label: 'laptop',
          },
        ],
        jwt: { secret: 'shared', audiences: ['otcserver'], maxLifetimeSeconds: 60 },
        issuers: [
          {
            issuer: 'https://login.example.com',
            audience: 'https://tools.example.com',
            jwksUri: 'https://login.example.com/keys',
            claims: { tenant: 'org', scopes: ['scp'], roles: ['realm_access', 'roles'] },
            tenant: 'acme',
            algorithms: ['RS256'],
          },
        ],
        roles: { viewer: ['fs:*:read'] },
        required: true,
      },
      calls: { retentionHours: 1, defaultTimeoutMs: 10, maxResultBytes: 4096 },
      results: { modelBytes: 8_000 },
      journal: { retentionDays: 1 },
      egress: {
        allow: ['127.0.0.1:9000', '[::1]:9000', 'crm.internal', '10.1.0.0/16'],
        maxResponseBytes: 4096,
        timeoutMs: 5,
        maxRedirects: 0,
      },
      limits: {
        perPrincipal: { callsPerMinute: 60, burst: 10, concurrent: 5 },
        perTool: { callsPerMinute: 600, perPrincipal: { callsPerMinute: 6, concurrent: 2 } },
        byPrincipal: { 'key:alice': { concurrent: 50 } },
        byTool: { 'Mail.Send': { callsPerMinute: 0.5, perPrincipal: { concurrent: 1 } } },
        total: {
          callsPerMinute: 6_000,
          burst: 600,
          concurrent: 200,
          pendingWrites: 100,
          delayMs: 200,
          bodyBytes: 1_048_576,
        },
      },
      budgets: [{ for: 'tenant', of: ['acme'], window: '1d', calls: 1_000, seconds: 3_600, cost: 99.5 }],
      openwop: { catalog: true, compactView: false },
      otc: { strictRequests: true, hideDeveloperMessages: true, omitListKey: 'tools' },
      opentool: {
        title: 'Sums',
        version: '2.0.0',
        description: 'What adds up.',
        stringIdsAreKeys: true,
        streaming: true,
      },
      mcp: { enabled: false, name: 'sums', instructions: 'Ask before adding.', pageSize: 50 },
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
        maxParkedPerPrincipal: 5,
      },
      webhooks: [
        { name: 'ops', url: 'https://ops.example/', secret: 'v-0123456789abcdef', events: ['pin.held'] },
      ],
      alerts: [{ when: 'error-rate', above: 5, tool: 'Mail.Send', window: '15m' }],
      acknowledgeLaxerVersions: ['Mail.Send@1.0.0'],
      ...{ authoring: { describeParameters: false }, console: { enabled: false } },
      oauth: {
        providers: {
          github: {
            authorizationEndpoint: 'https://github.com/login/oauth/authorize',
            tokenEndpoint: 'https://github.com/login/oauth/access_token',
            clientId: 'id',
            clientSecret: 'client-secret',
            clientAuth: 'post',
            scopes: ['repo'],
            parameters: { allow_signup: 'false' },
          },
        },
        signIn: { issuer: 'https://accounts.example.com/', clientId: 'id', owners: { 'key:a': ['u'] } },
        allowUnboundConsent: true,
      },
      sources: {
        Mine: {
          type: 'custom',
          open: () => {
            throw new Error('not opened here')
          },
        },
      },
      hooks: { admit: () => undefined, verifyToken: () => true, bindUser: () => true },
      search: { learn: false, embed: async (texts) => texts.map(() => [1]) },
      log: { level: 'debug' },
      telemetry: { otlpEndpoint: 'http://127.0.0.1:4318' },
    } satisfies Required<ColletConfig>
    const parsed: ParsedConfig = parseConfig(full, FILE)
    expect(parsed.server.publicUrl).toBe('https://tools.example.com')
    expect(parsed.auth.jwt?.maxLifetimeSeconds).toBe(60)
    expect(parsed.auth.jwt?.secret.reveal()).toBe('shared')
    expect(parsed.auth.apiKeys[0]?.key.reveal()).toBe('k-alice')
    expect(JSON.stringify(parsed)).not.toContain('k-alice')
    expect(parsed.approvals.webhooks[0]?.secret?.reveal()).toBe('w-0123456789abcdef')
    expect(parsed.webhooks[0]?.secret?.reveal()).toBe('v-0123456789abcdef')
    expect(JSON.stringify(parsed)).not.toMatch(/[vw]-0123456789abcdef/)
  })

  it('names unknown keys with their path and a suggestion', () => {
    expect(problemsOf({ server: { prot: 1 } })).toEqual(['server: unknown key "prot". Did you mean "port"?'])
    expect(problemsOf({ tolls: [] })).toEqual([': unknown key "tolls". Did you mean "tools"?'])
    expect(problemsOf({ auth: { apiKeys: [{ id: 'a', key: 'k', scope: [] }] } })).toEqual([
      'auth.apiKeys[0]: unknown key "scope". Did you mean "scopes"?',
    ])
  })

  it('accepts a console sign-in only at an issuer whose tokens are accepted', () => {
    const signIn = { issuer: 'https://idp.example.com', clientId: 'collet' }
    const auth = { issuers: [{ issuer: 'https://idp.example.com', audience: 'collet' }] }
    expect(parseConfig({ console: { signIn }, auth }, FILE).console.signIn).toMatchObject({
      scopes: ['openid'],
    })
    const [problem] = problemsOf({
      console: { signIn: { ...signIn, issuer: 'https://idp.example.co' } },
      auth,
    })
    expect(problem).toMatch(
      /^console\.signIn\.issuer: is not among auth\.issuers.*Did you mean "https:\/\/idp\.example\.com"\?$/,
    )
    expect(problemsOf({ console: { signIn } })).toHaveLength(1)
  })

  it('names the right place of a key on the wrong level', () => {
    expect(problemsOf({ port: 1 })).toEqual([': unknown key "port". Did you mean "server.port"?'])
  })

  it('lists the known keys if none is similar', () => {
    expect(problemsOf({ log: { banana: 1 } })).toEqual([
      'log: unknown key "banana". Known here: level, format.',
    ])
  })

  it('reports the problem of each entry of the allow-list, and of the limits', () => {
    const egress = {
      allow: ['127.0.0.1', '10.0.0.1/8', 1, '169.254.169.254'],
      maxRedirects: -1,
      timeoutMs: 0,
    }
    expect(problemsOf({ egress }).sort()).toEqual([
      'egress.allow[1]: expected a range such as "10.1.0.0/16" or "fd00:1::/32", without bits after its prefix.',
      'egress.allow[2]: expected text, got a number.',
      'egress.allow[3]: has the kind "metadata", which is never allowed.',
      'egress.maxRedirects: must be at least 0.',
      'egress.timeoutMs: must be at least 1.',
    ])
  })

  it('OTS-03: reports the problems of the OpenTool section', () => {
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
    expect(problemsOf({ mcp: { pageSize: 0 }, pageSize: 5 })).toEqual([
      'mcp.pageSize: must be at least 1.',
      ': unknown key "pageSize". Did you mean "mcp.pageSize"?',
    ])
    expect(problemsOf({ opentool: [] })).toEqual(['opentool: expected an object, got a list.'])
    expect(problemsOf({ streaming: true })).toEqual([
      ': unknown key "streaming". Did you mean "opentool.streaming"?',
    ])
  })

  it('reports every problem at once', () => {
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

  it('requires booleans for the openwop switches', () => {
    expect(problemsOf({ openwop: { catalog: 'off', compactView: 0 } })).toEqual([
      'openwop.catalog: expected true or false, got text.',
      'openwop.compactView: expected true or false, got a number.',
    ])
    expect(problemsOf({ openwop: { compact: true } })).toEqual([
      'openwop: unknown key "compact". Known here: catalog, compactView, vendor, sessions.',
    ])
    expect(problemsOf({ openwop: true })).toEqual(['openwop: expected an object, got true or false.'])
  })

  it('suggests an unset variable if a key is missing', () => {
    expect(problemsOf({ auth: { apiKeys: [{ id: 'a', key: undefined }] } })[0]).toContain(
      'is that variable set?',
    )
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
      store: 'postgres://user:hunter2@db:port/x',
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

  it('OWP-57, OWP-60: reads the permissions of a key, and refuses an unknown role', () => {
    const key = { id: 'ci', key: 'k', tools: [], expiresAt: '2027-01-31T00:00:00+01:00' }
    const { apiKeys } = parseConfig({ auth: { apiKeys: [key] } }, FILE).auth
    expect(apiKeys).toMatchObject([{ tools: [], expiresAtMs: Date.UTC(2027, 0, 30, 23), roles: [] }])
    expect(
      problemsOf({ auth: { apiKeys: [{ id: 'ci', key: 'k', roles: ['viewr'] }], roles: { viewer: [] } } }),
    ).toEqual(['auth.apiKeys[0].roles: there is no role "viewr" in auth.roles. Did you mean "viewer"?'])
    expect(problemsOf({ auth: { apiKeys: [{ id: 'ci', key: 'k', expiresAt: 'soon' }] } })).toEqual([
      'auth.apiKeys[0].expiresAt: expected a date and time with a zone, for example "2027-01-31T00:00:00Z".',
    ])
  })

  it('reports an invalid name of a role', () => {
    expect(problemsOf({ auth: { roles: { 'a role': [] } } })).toEqual([
      expect.stringMatching(/^auth\.roles\.a role: expected 1 to 128 letters/),
    ])
  })

  it('accepts issuers over TLS or on loopback, each once and with an audience', () => {
    const issuer = (url: string, more: object = {}) => ({ issuer: url, audience: 'x', ...more })
    const of = (...issuers: object[]) => problemsOf({ auth: { issuers } })
    expect(
      of(issuer('https://a.test'), issuer('http://127.0.0.1:4000'), issuer('http://localhost:4000/x')),
    ).toEqual([])
    for (const url of [
      'http://a.test',
      'ftp://a.test',
      'a.test',
      'https://a.test?x',
      'https://u:p@a.test',
      'http://127.0.0.1.evil.test',
    ]) {
      expect(of(issuer(url))).toEqual([
        expect.stringMatching(/^auth\.issuers\[0\]\.issuer: expected an https URL/),
      ])
    }
    expect(of(issuer('https://a.test', { jwksUri: 'http://a.test/keys' }))).toHaveLength(1)
    expect(of(issuer('https://a.test', { algorithms: ['HS256'] }))).toHaveLength(1)
    expect(of(issuer('https://a.test', { algorithms: ['none'] }))).toHaveLength(1)
    expect(of({ issuer: 'https://a.test' })).toHaveLength(1)
    expect(of(issuer('https://a.test', { audience: [] }))).toHaveLength(1)
    expect(of(issuer('https://a.test'), issuer('https://a.test'))).toEqual([expect.stringMatching(/twice/)])
  })
})
