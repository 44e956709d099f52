import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Settings } from '#config/settings'
import { DEFAULT_APPROVAL_RULES } from '#kernel/approval/approvals'
import { NO_LIMITS } from '#stages/limits/settings'

/** Settings of a server on a free loopback port with its own data folder; the caller removes the folder. */
export function testSettings(changes: Partial<Settings> = {}): Settings {
  return {
    tools: [],
    toolkits: new Map(),
    sources: new Map(),
    folder: '.',
    server: {
      host: '127.0.0.1',
      port: 0,
      publicUrl: undefined,
      bodyLimitBytes: 1_048_576,
      allowedOrigins: [],
      maxConnections: 10_000,
    },
    store: 'memory:',
    dataFolder: changes.dataFolder ?? mkdtempSync(join(tmpdir(), 'collet-test-')),
    masterKey: undefined,
    auth: { apiKeys: [], jwt: undefined },
    oauth: { providers: {}, signIn: undefined, allowUnboundConsent: false },
    console: { enabled: true },
    calls: { retentionHours: 24, defaultTimeoutMs: 60_000, maxResultBytes: 16 * 1_048_576 },
    journal: { retentionDays: 90 },
    egress: egressTo(),
    limits: NO_LIMITS,
    budgets: [],
    openwop: { catalog: true, compactView: true, vendor: 'local', sessions: true },
    otc: { strictRequests: false, hideDeveloperMessages: false, omitListKey: undefined },
    opentool: {
      title: 'Collet',
      version: undefined,
      description: undefined,
      stringIdsAreKeys: false,
      streaming: false,
    },
    mcp: { enabled: true, name: 'collet', instructions: undefined, pageSize: 1_000, taskAfterMs: 800 },
    approvals: DEFAULT_APPROVAL_RULES,
    hooks: {},
    logLevel: 'silent',
    otlpEndpoint: undefined,
    ...changes,
  }
}

/** Egress that also reaches these local hosts. */
export function egressTo(...allow: readonly string[]): Settings['egress'] {
  return { allow, maxResponseBytes: 10_485_760, timeoutMs: 30_000, maxRedirects: 5 }
}

/** Settings with a SQLite file inside the data folder. */
export function sqliteSettings(changes: Partial<Settings> = {}): Settings {
  const settings = testSettings(changes)
  return { ...settings, store: `sqlite:${join(settings.dataFolder, 'collet.db')}` }
}
