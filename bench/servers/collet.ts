import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import type { ApiKeySettings, Settings } from '#config/settings'
import { DEFAULT_APPROVAL_RULES } from '#core/approvals/approval-rules'
import { tool } from '#core/define-tool'
import { DEFAULT_TENANT } from '#core/principal'
import { requireTools } from '#core/require-tools'
import { Secret } from '#core/secret'
import { startServer } from '#server/start-server'
import { ADD_INPUT_SCHEMA, ADD_TOOL, API_KEY, BUMP_TOOL, NUMBER_DIGITS } from './add-contract.ts'
import { announce } from './announce.ts'
import { principalKey, principalScopes, scopesAskedBy } from './principals.ts'

/** Ours, as `collet serve` runs it, with as many tools and callers as asked for. */
const { values } = parseArgs({
  options: {
    store: { type: 'string', default: 'memory' },
    tools: { type: 'string', default: '10' },
    principals: { type: 'string', default: '0' },
  },
})

const principals = Number(values.principals)

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
function fillerTool(place: number) {
  return tool({
    id: `Filler.Tool${place}@1.0.0`,
    description: `Adds two numbers together, as tool number ${place} of a large catalog.`,
    input: ADD_INPUT_SCHEMA,
    output: { type: 'number' },
    policy: {
      safetyTier: 'pure',
      replay: 'deterministic',
      scopes: principals === 0 ? [] : scopesAskedBy(place),
    },
    run: () => 0,
  })
}

function apiKey(place: number): ApiKeySettings {
  const digits = String(place).padStart(NUMBER_DIGITS, '0')
  const key = new Secret(principalKey(digits))
  return { id: `principal-${place}`, key, tenant: DEFAULT_TENANT, scopes: principalScopes(place) }
}

/** Beside the checkout's other data and not in a temporary folder: there, fsync may cost nothing. */
function makeDataFolder(): string {
  const parent = resolve('.collet')
  mkdirSync(parent, { recursive: true })
  return mkdtempSync(join(parent, 'bench-'))
}

const dataFolder = makeDataFolder()
const fillers = Array.from({ length: Number(values.tools) - 2 }, (_, place) => fillerTool(place))
const settings: Settings = {
  tools: requireTools([...fillers, add, bump]),
  toolkits: new Map(),
  server: { host: '127.0.0.1', port: 0, publicUrl: undefined, bodyLimitBytes: 1_048_576, allowedOrigins: [] },
  store: values.store === 'memory' ? 'memory:' : `sqlite:${join(dataFolder, 'collet.db')}`,
  dataFolder,
  masterKey: undefined,
  auth: {
    apiKeys: [
      { id: 'bench', key: new Secret(API_KEY), tenant: DEFAULT_TENANT, scopes: [] },
      ...Array.from({ length: principals }, (_, place) => apiKey(place)),
    ],
    jwt: undefined,
  },
  calls: { retentionHours: 24, defaultTimeoutMs: 60_000, maxResultBytes: 1_048_576 },
  journal: { retentionDays: 90 },
  openwop: { catalog: true, compactView: true, sessions: true },
  otc: { strictRequests: false, hideDeveloperMessages: false, omitListKey: undefined },
  opentool: {
    title: 'Collet',
    version: undefined,
    description: undefined,
    stringIdsAreKeys: false,
    streaming: false,
  },
  hooks: {},
  logLevel: 'warn',
  approvals: DEFAULT_APPROVAL_RULES,
  otlpEndpoint: undefined,
}

const server = await startServer(settings)
announce(Number(new URL(server.url).port), async () => {
  await server.close()
  rmSync(dataFolder, { recursive: true, force: true })
})
