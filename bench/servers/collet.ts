import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { SignJWT } from 'jose'
import { z } from 'zod'
import { optimizeSooner } from '#cli/io'
import type { ApiKeySettings, Settings } from '#config/settings'
import { DEFAULT_APPROVAL_RULES } from '#kernel/approval/approvals'
import { DEFAULT_TENANT } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import type { Spending } from '#kernel/journal/notices'
import { tool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { startServer } from '#server/start-server'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { type CallLimit, NO_LIMITS } from '#stages/limits/settings'
import { ADD_INPUT_SCHEMA, ADD_TOOL, API_KEY, BUMP_TOOL, NUMBER_DIGITS } from './add-contract.ts'
import { announce } from './announce.ts'
import { principalKey, principalScopes, requiredScopes } from './principals.ts'

/** A Collet server as `collet serve` runs it, with the requested number of tools and callers. */
const { values } = parseArgs({
  options: {
    store: { type: 'string', default: 'memory' },
    tools: { type: 'string', default: '10' },
    principals: { type: 'string', default: '0' },
    /** How callers authenticate: with a key of the config or of the store, with a token, or not at all. */
    auth: { type: 'string', default: 'config' },
    limits: { type: 'boolean', default: false },
    /** An MCP server whose tools are served too. */
    upstream: { type: 'string' },
    /** A program in Node that speaks MCP on its standard input and output, whose tools are served too. */
    program: { type: 'string' },
    /** Leaves those tools unclassified: each is taken for a write, whose claim is fsynced before it runs. */
    unclassified: { type: 'boolean', default: false },
  },
})

const principals = Number(values.principals)
const TOKEN_SECONDS = 3_600

const input = z.object({
  a: z.number().describe('The first number.'),
  b: z.number().describe('The second number.'),
})

const add = tool({
  id: ADD_TOOL,
  description: 'Adds two numbers together.',
  input,
  output: z.number(),
  policy: { safetyTier: 'pure', replay: 'deterministic' },
  run: ({ a, b }) => a + b,
})

const bump = tool({
  id: BUMP_TOOL,
  description: 'Adds two numbers together, as a tool that changes something.',
  input,
  output: z.number(),
  policy: { safetyTier: 'write', replay: 'non-deterministic' },
  run: ({ a, b }) => a + b,
})

/** Catalogs of this size come from other systems, so these carry plain JSON Schema. */
function fillerTool(index: number) {
  return tool({
    id: `Filler.Tool${index}@1.0.0`,
    description: `Adds two numbers together, as tool number ${index} of a large catalog.`,
    input: ADD_INPUT_SCHEMA,
    output: { type: 'number' },
    policy: {
      safetyTier: 'pure',
      replay: 'deterministic',
      scopes: principals === 0 ? [] : requiredScopes(index),
    },
    run: () => 0,
  })
}

function apiKey(index: number): ApiKeySettings {
  const digits = String(index).padStart(NUMBER_DIGITS, '0')
  const key = new Secret(principalKey(digits))
  return { id: `principal-${index}`, key, tenant: DEFAULT_TENANT, scopes: principalScopes(index) }
}

const HIGH: CallLimit = { rate: { perMs: 1_000, burst: 1_000_000 }, concurrent: 100_000 }
const NEVER_SPENT: Spending = { calls: 1e9, milliseconds: 1e12, cost: 1e12 }

/** All limits and budgets, so high that none is ever reached. */
const HIGH_LIMITS: Pick<Settings, 'limits' | 'budgets'> = {
  limits: {
    perPrincipal: HIGH,
    byPrincipal: new Map(),
    perTool: { ...HIGH, perPrincipal: HIGH },
    byTool: new Map(),
    total: { ...HIGH, pendingWrites: 100_000, delayMs: 10_000, bodyBytes: 1e9 },
    waiting: { perPrincipal: 100_000, total: 100_000, maxMs: 60_000 },
  },
  budgets: (['principal', 'tenant'] as const).map((who) => ({
    for: who,
    of: undefined,
    windowMs: 86_400_000,
    limit: NEVER_SPENT,
  })),
}

/** The folder is in the checkout, because fsync may cost nothing in a temporary folder. */
function makeDataFolder(): string {
  const parent = resolve('.collet')
  mkdirSync(parent, { recursive: true })
  return mkdtempSync(join(parent, 'bench-'))
}

function storeOf(kind: string, folder: string): string {
  if (kind === 'memory') return 'memory:'
  return kind === 'postgres' ? (process.env.DATABASE_URL ?? '') : `sqlite:${join(folder, 'collet.db')}`
}

function authOf(method: string): Settings['auth'] {
  const closed = { apiKeys: [], jwt: undefined }
  switch (method) {
    case 'none':
      return closed
    case 'stored-key':
      return { ...closed, required: true }
    case 'jwt':
      return {
        ...closed,
        jwt: {
          secret: new Secret(API_KEY),
          audiences: [],
          maxLifetimeSeconds: TOKEN_SECONDS,
          tenant: DEFAULT_TENANT,
        },
      }
    default:
      return {
        ...closed,
        apiKeys: [
          { id: 'bench', key: new Secret(API_KEY), tenant: DEFAULT_TENANT, scopes: [] },
          ...Array.from({ length: principals }, (_, index) => apiKey(index)),
        ],
      }
  }
}

/** The credential of callers, if the server has to create it. */
async function makeCredential(method: string, url: string, startTokenFile: string): Promise<string> {
  if (method === 'stored-key') {
    const headers = {
      authorization: `Bearer ${readFileSync(startTokenFile, 'utf8').trim()}`,
      'content-type': 'application/json',
    }
    const body = JSON.stringify({ principal: 'bench' })
    const reply = await fetch(`${url}/admin/keys`, { method: 'POST', headers, body })
    return z.object({ key: z.string() }).parse(await reply.json()).key
  }
  return await new SignJWT({ iss: 'https://bench.test', sub: 'bench', scope: 'a:b c:d' })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime(`${TOKEN_SECONDS}s`)
    .sign(new TextEncoder().encode(API_KEY))
}

/** By default its tools are classified as reads, as an operator would: their outcome is fsynced, without a claim before the run. */
function upstreamOf({ upstream: url, program, unclassified }: typeof values): Settings['sources'] {
  if (url === undefined && program === undefined) return new Map()
  const connection =
    program === undefined
      ? { url, headers: { 'x-api-key': API_KEY } }
      : { command: process.execPath, args: ['--disable-warning=ExperimentalWarning', program] }
  const policy = unclassified ? {} : { policy: { safetyTier: 'read' } }
  return new Map([['Upstream', MCP_OPTIONS.parse({ type: 'mcp', ...connection, ...policy })]])
}

const dataFolder = makeDataFolder()
const fillers = Array.from({ length: Number(values.tools) - 2 }, (_, index) => fillerTool(index))
const settings: Settings = {
  console: { enabled: false },
  tools: requireTools([...fillers, add, bump]),
  toolkits: new Map(),
  sources: upstreamOf(values),
  folder: '.',
  server: {
    host: '127.0.0.1',
    port: 0,
    publicUrl: undefined,
    bodyLimitBytes: 1_048_576,
    allowedOrigins: [],
    maxConnections: 10_000,
  },
  store: storeOf(values.store, dataFolder),
  dataFolder,
  masterKey: values.store === 'postgres' ? new Uint8Array(32).fill(7) : undefined,
  auth: authOf(values.auth),
  oauth: { providers: {}, signIn: undefined, allowUnboundConsent: false },
  calls: { retentionHours: 24, defaultTimeoutMs: 60_000, maxResultBytes: 1_048_576 },
  journal: { retentionDays: 90 },
  egress: { allow: [], maxResponseBytes: 10_485_760, timeoutMs: 30_000, maxRedirects: 5 },
  ...(values.limits ? HIGH_LIMITS : { limits: NO_LIMITS, budgets: [] }),
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
  hooks: {},
  logLevel: 'warn',
  approvals: DEFAULT_APPROVAL_RULES,
  otlpEndpoint: undefined,
}

optimizeSooner()
const server = await startServer(settings)
const credential = await makeCredential(values.auth, server.url, server.startTokenFile)
announce(
  Number(new URL(server.url).port),
  async () => {
    await server.close()
    rmSync(dataFolder, { recursive: true, force: true })
  },
  credential,
)
