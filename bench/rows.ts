import type { ContenderName } from './contenders.ts'

/** Requests per second of one contender over those of another. */
export interface RatioRow {
  readonly kind: 'ratio'
  readonly title: string
  readonly contender: ContenderName
  readonly against: ContenderName
  /** `undefined` = shown for information. */
  readonly atLeast: number | undefined
}

/** The most different two of several contenders. */
export interface SpreadRow {
  readonly kind: 'spread'
  readonly title: string
  readonly contenders: readonly ContenderName[]
  readonly atLeast: number
}

export type CatalogTiming = 'plain' | 'gzip' | 'notModified' | 'startUp'

export interface CatalogRow {
  readonly kind: 'catalog'
  readonly title: string
  readonly timing: CatalogTiming
  readonly atMostMs: number
}

/** The openwop catalog, read by many callers in turn. */
export interface PrincipalsRow {
  readonly kind: 'principals'
  readonly title: string
  readonly timing: 'plain' | 'gzip'
  readonly atMostMs: number
}

/** What those reads leave in memory, over what they leave when there is one caller per set of scopes. */
export interface PrincipalsMemoryRow {
  readonly kind: 'principalsMemory'
  readonly title: string
  readonly atMost: number
}

/** Readers that follow one run, each of which must get every event once and in order. */
export interface FollowersRow {
  readonly kind: 'followers'
  readonly title: string
}

/** A large OpenAPI document read into tools, in a process of its own. */
export interface ImportRow {
  readonly kind: 'import'
  readonly title: string
  readonly document: 'github' | 'stripe'
  readonly atLeastTools: number
  /** Of processor time. */
  readonly atMostMs: number
  /** The longest that the serving thread was held, in its processor time. */
  readonly atMostStallMs: number
  readonly atMostMegabytes: number
  readonly atMostListMegabytes: number
}

/** A call that goes on to another server, against the same call made there. */
export interface HopRow {
  readonly kind: 'hop'
  readonly title: string
  readonly atMostMoreMs: number
  readonly atMostP99Ratio: number
}

export type Row =
  | RatioRow
  | SpreadRow
  | CatalogRow
  | PrincipalsRow
  | PrincipalsMemoryRow
  | FollowersRow
  | ImportRow
  | HopRow

/** What is promised, row by row. */
export const ROWS = {
  memory: {
    kind: 'ratio',
    title: 'memory store, against bare node:http',
    contender: 'memory',
    against: 'bare',
    atLeast: 0.35,
  },
  sqlite: {
    kind: 'ratio',
    title: 'SQLite, outcome and event fsynced, against bare',
    contender: 'sqlite',
    against: 'bare',
    atLeast: 0.3,
  },
  mcp: {
    kind: 'ratio',
    title: 'SQLite, against MCP SDK v2 (stateless, JSON)',
    contender: 'sqlite',
    against: 'mcp',
    atLeast: 4,
  },
  'mcp-out': {
    kind: 'ratio',
    title: 'MCP tools/call, stateless, on SQLite, against MCP SDK v2, same tool',
    contender: 'mcp sqlite',
    against: 'mcp',
    atLeast: 4,
  },
  write: {
    kind: 'ratio',
    title: 'SQLite, write tool, claim and outcome fsynced, against bare',
    contender: 'write',
    against: 'bare',
    atLeast: 0.18,
  },
  opentool: {
    kind: 'ratio',
    title: 'OpenTool on SQLite, against bare, 10 connections (OTS-90)',
    contender: 'opentool',
    against: 'bare at 10',
    atLeast: 0.25,
  },
  'opentool-memory': {
    kind: 'ratio',
    title: 'OpenTool on the memory store, against bare, 10 connections (OTS-90)',
    contender: 'opentool memory',
    against: 'bare at 10',
    atLeast: 0.45,
  },
  tools: {
    kind: 'spread',
    title: 'calls with 10, 1 000 and 10 000 tools (least over most)',
    contenders: ['memory', 'tools 1000', 'tools 10000'],
    atLeast: 0.9,
  },
  'list-plain': { kind: 'catalog', title: 'GET /tools, 10 000 tools', timing: 'plain', atMostMs: 150 },
  'list-gzip': { kind: 'catalog', title: 'GET /tools, 10 000 tools, gzip', timing: 'gzip', atMostMs: 150 },
  'list-304': {
    kind: 'catalog',
    title: 'GET /tools, 10 000 tools, 304',
    timing: 'notModified',
    atMostMs: 2,
  },
  'start-up': {
    kind: 'catalog',
    title: 'start-up with 10 000 tools',
    timing: 'startUp',
    atMostMs: 2_000,
  },
  'openwop-plain': {
    kind: 'principals',
    title: 'GET /v1/tools, 10 000 tools, 1 000 callers',
    timing: 'plain',
    atMostMs: 150,
  },
  'openwop-gzip': {
    kind: 'principals',
    title: 'GET /v1/tools, 10 000 tools, 1 000 callers, gzip',
    timing: 'gzip',
    atMostMs: 150,
  },
  'openwop-memory': {
    kind: 'principalsMemory',
    title: 'memory those leave: 1 000 callers over 4, of 4 scope sets',
    // A thousand keys that were good once, and nothing else: a body kept for each caller would be 250 times as much.
    atMost: 1.25,
  },
  followers: { kind: 'followers', title: '1 000 SSE readers of one run, 100 calls in it; events/s, lag' },
  import: {
    kind: 'import',
    title: "GitHub's OpenAPI document added to a running server",
    document: 'github',
    atLeastTools: 1_000,
    atMostMs: 5_000,
    atMostStallMs: 50,
    atMostMegabytes: 300,
    atMostListMegabytes: 12,
  },
  'import-stripe': {
    kind: 'import',
    title: "Stripe's OpenAPI document, or one of its shape, added to a running server",
    document: 'stripe',
    atLeastTools: 452,
    atMostMs: 5_000,
    atMostStallMs: 50,
    atMostMegabytes: 300,
    atMostListMegabytes: 12,
  },
  'mcp-hop': {
    kind: 'hop',
    title:
      'call through us to an MCP server over HTTP, 1 connection, SQLite; more p50 and ratio of p99 against direct',
    atMostMoreMs: 1,
    atMostP99Ratio: 1.5,
  },
  'auth-key': {
    kind: 'ratio',
    title: 'memory store, API key of the store checked, against no auth',
    contender: 'stored key',
    against: 'no auth',
    atLeast: 0.95,
  },
  'auth-jwt': {
    kind: 'ratio',
    title: 'memory store, JWT checked, against no auth',
    contender: 'jwt',
    against: 'no auth',
    atLeast: 0.95,
  },
  keyed: {
    kind: 'ratio',
    title: 'SQLite, every call with its own call id, against bare',
    contender: 'keyed',
    against: 'bare',
    atLeast: undefined,
  },
  limits: {
    kind: 'ratio',
    title: 'SQLite, every limit and two budgets on, against off',
    contender: 'limited',
    against: 'sqlite',
    atLeast: 0.97,
  },
  noise: {
    kind: 'ratio',
    title: 'bare against bare: the noise of this machine',
    contender: 'bare again',
    against: 'bare',
    atLeast: undefined,
  },
} as const satisfies Record<string, Row>

export type RowName = keyof typeof ROWS

export function isRowName(text: string): text is RowName {
  return Object.hasOwn(ROWS, text)
}

export function contendersOf(row: Row): readonly ContenderName[] {
  if (row.kind === 'ratio') return [row.against, row.contender]
  return row.kind === 'spread' ? row.contenders : []
}
