import type { ContenderName } from './contenders.ts'
import type { FigureOf, SubjectName } from './subjects.ts'

/** The goals of a figure. A figure without goals is shown for information. */
export interface Goals {
  readonly unit: 'ratio' | 'ms' | 'MB'
  /** Whether higher or lower is better. */
  readonly best: 'high' | 'low'
  /** The run fails if this goal is missed. */
  readonly must?: number
  readonly aim?: number
}

interface RowBase {
  readonly title: string
  readonly goals: Goals
}

/** The ratio of two contenders under load, in requests per second or processor time per request. */
export interface RatioRow extends RowBase {
  readonly kind: 'ratio'
  readonly of: 'requestsPerSecond' | 'cpuMicroseconds'
  readonly contender: ContenderName
  readonly against: ContenderName
}

/** A figure of a separate measurement. */
export type FigureRow = {
  readonly [Subject in SubjectName]: RowBase & {
    readonly kind: 'figure'
    readonly subject: Subject
    readonly figure: FigureOf<Subject>
  }
}[SubjectName]

export type Row = RatioRow | FigureRow

function atLeast(must: number, aim?: number): Goals {
  return { unit: 'ratio', best: 'high', must, ...(aim === undefined ? {} : { aim }) }
}

function atMost(unit: Goals['unit'], must: number, aim?: number): Goals {
  return { unit, best: 'low', must, ...(aim === undefined ? {} : { aim }) }
}

const FOR_INFORMATION: Goals = { unit: 'ratio', best: 'high' }

function rate<Contender extends ContenderName, Against extends ContenderName>(
  contender: Contender,
  against: Against,
) {
  return { kind: 'ratio', of: 'requestsPerSecond', contender, against } as const
}

/** The rows of the table with their goals. The first rows make calls with authentication, validation, policy and a durable journal. */
export const ROWS = {
  sqlite: {
    title: 'SQLite, outcome and event fsynced, against bare node:http',
    ...rate('sqlite', 'bare'),
    goals: atLeast(0.45, 0.6),
  },
  'sqlite-cpu': {
    title: 'processor time of a call on SQLite, over that of the bare server',
    ...{ kind: 'ratio', of: 'cpuMicroseconds', contender: 'sqlite', against: 'bare' },
    goals: atMost('ratio', 1.9, 1.5),
  },
  memory: {
    title: 'SQLite in memory, against bare',
    ...rate('memory', 'bare'),
    goals: atLeast(0.45, 0.55),
  },
  write: {
    title: 'SQLite, write tool, claim and outcome fsynced, against bare',
    ...rate('write', 'bare'),
    goals: atLeast(0.33, 0.4),
  },
  'postgres-store': {
    title: 'the bare store on PostgreSQL, against the same rows in the same groups by a bare loop over pg',
    ...{ kind: 'figure', subject: 'postgres', figure: 'ceiling' },
    goals: atLeast(0.85, 0.95),
  },
  'postgres-32': {
    title: 'PostgreSQL on this machine, 32 connections, against SQLite',
    ...rate('postgres', 'sqlite'),
    goals: atLeast(0.65, 0.8),
  },
  'postgres-128': {
    title: 'PostgreSQL on this machine, 128 connections, against SQLite with as many',
    ...rate('postgres at 128', 'sqlite at 128'),
    goals: atLeast(0.8, 1),
  },
  mcp: {
    title: '/mcp on SQLite, against MCP SDK v2, same tool, stateless',
    ...rate('mcp sqlite', 'mcp'),
    goals: atLeast(7, 10),
  },
  'mcp-fastmcp': {
    title: '/mcp on SQLite, against FastMCP, same tool, stateless',
    ...rate('mcp sqlite', 'fastmcp'),
    goals: atLeast(6, 10),
  },
  hop: {
    title:
      'call of a read through Collet to an MCP server over HTTP, 1 connection: p50 minus that of a direct call',
    ...{ kind: 'figure', subject: 'hop', figure: 'more' },
    goals: atMost('ms', 0.5, 0),
  },
  'hop-p99': {
    title: 'the same: p99 over that of a direct call',
    ...{ kind: 'figure', subject: 'hop', figure: 'p99Ratio' },
    goals: atMost('ratio', 1.3, 1),
  },
  'hop-write': {
    title: 'the same p50 for a tool that is not classified, so that its claim is fsynced before it runs',
    ...{ kind: 'figure', subject: 'hop', figure: 'write' },
    goals: { unit: 'ms', best: 'low' },
  },
  'stdio-hop': {
    title: 'call over HTTP through Collet to an MCP server on stdio, 1 connection: p50',
    ...{ kind: 'figure', subject: 'stdioHop', figure: 'p50' },
    goals: { unit: 'ms', best: 'low', aim: 0.8 },
  },
  'stdio-supergateway': {
    title: 'the same: p50 over that of supergateway, which records and checks nothing',
    ...{ kind: 'figure', subject: 'stdioHop', figure: 'overSupergateway' },
    goals: atMost('ratio', 1),
  },
  'stdio-mcp-proxy': {
    title: 'the same: p50 over that of mcp-proxy, which records and checks nothing',
    ...{ kind: 'figure', subject: 'stdioHop', figure: 'overMcpProxy' },
    goals: atMost('ratio', 1),
  },
  opentool: {
    title: 'OpenTool on SQLite, 10 connections, against bare with as many',
    ...rate('opentool', 'bare at 10'),
    goals: atLeast(0.32, 0.4),
  },
  'half-load': {
    title: 'p99 at half the peak rate of Collet on SQLite, over that of bare at the same rate',
    ...{ kind: 'figure', subject: 'halfLoad', figure: 'p99Ratio' },
    goals: atMost('ratio', 4, 2),
  },
  tools: {
    title: 'calls with 10, 1 000 and 10 000 tools (lowest rate over highest)',
    ...{ kind: 'figure', subject: 'tools', figure: 'calls' },
    goals: atLeast(0.95, 1),
  },
  workers: {
    title: 'two workers on PostgreSQL, a tool that burns 1 ms of CPU, against one',
    ...{ kind: 'figure', subject: 'workers', figure: 'ratio' },
    goals: atLeast(1.5, 1.8),
  },
  start: {
    title: 'cold start of the built package to its first answered call, over a Fastify hello',
    ...{ kind: 'figure', subject: 'start', figure: 'ratio' },
    goals: atMost('ratio', 2.5, 1.5),
  },
  rss: {
    title: 'resident memory at rest, built package on SQLite, after its first call',
    ...{ kind: 'figure', subject: 'start', figure: 'rss' },
    goals: atMost('MB', 130, 100),
  },
  'heap-tools': {
    title: 'heap and buffers per 1 000 plain tools',
    ...{ kind: 'figure', subject: 'memory', figure: 'tools' },
    goals: atMost('MB', 4, 3),
  },
  'heap-streams': {
    title: 'heap and buffers per 1 000 open SSE streams',
    ...{ kind: 'figure', subject: 'memory', figure: 'streams' },
    goals: atMost('MB', 10, 7),
  },
  'import-memory': {
    title: "GitHub's OpenAPI document added to a running server: peak memory above the memory before",
    ...{ kind: 'figure', subject: 'github', figure: 'megabytes' },
    goals: atMost('MB', 120, 80),
  },

  fastify: {
    title: 'Fastify alone (key and schema checked), against bare',
    ...rate('fastify', 'bare'),
    goals: FOR_INFORMATION,
  },
  'sqlite-fastify': {
    title: 'SQLite, against Fastify alone',
    ...rate('sqlite', 'fastify'),
    goals: FOR_INFORMATION,
  },
  keyed: {
    title: 'SQLite, every call with its own call id, against bare',
    ...rate('keyed', 'bare'),
    goals: FOR_INFORMATION,
  },
  'opentool-memory': {
    title: 'OpenTool on SQLite in memory, 10 connections, against bare with as many',
    ...rate('opentool memory', 'bare at 10'),
    goals: atLeast(0.45),
  },
  'auth-key': {
    title: 'SQLite in memory, API key of the store checked, against no auth',
    ...rate('stored key', 'no auth'),
    goals: atLeast(0.95),
  },
  'auth-jwt': {
    title: 'SQLite in memory, JWT checked, against no auth',
    ...rate('jwt', 'no auth'),
    goals: atLeast(0.95),
  },
  limits: {
    title: 'SQLite, every limit and two budgets on, against off',
    ...rate('limited', 'sqlite'),
    goals: atLeast(0.97),
  },
  'tools-cpu': {
    title: 'processor time of those calls (lowest over highest)',
    ...{ kind: 'figure', subject: 'tools', figure: 'cpu' },
    goals: FOR_INFORMATION,
  },
  'tools-noise': {
    title: 'two servers with 10 tools in the same turns: the noise of the row tools',
    ...{ kind: 'figure', subject: 'tools', figure: 'noise' },
    goals: FOR_INFORMATION,
  },
  'list-plain': {
    title: 'GET /tools, 10 000 tools',
    ...{ kind: 'figure', subject: 'catalog', figure: 'plain' },
    goals: atMost('ms', 150),
  },
  'list-gzip': {
    title: 'GET /tools, 10 000 tools, gzip',
    ...{ kind: 'figure', subject: 'catalog', figure: 'gzip' },
    goals: atMost('ms', 150),
  },
  'list-304': {
    title: 'GET /tools, 10 000 tools, 304',
    ...{ kind: 'figure', subject: 'catalog', figure: 'notModified' },
    goals: atMost('ms', 2),
  },
  'start-10000': {
    title: 'start with 10 000 tools, from the sources',
    ...{ kind: 'figure', subject: 'catalog', figure: 'startUp' },
    goals: atMost('ms', 2_000),
  },
  'openwop-plain': {
    title: 'GET /v1/tools, 10 000 tools, 1 000 callers',
    ...{ kind: 'figure', subject: 'principals', figure: 'plain' },
    goals: atMost('ms', 150),
  },
  'openwop-gzip': {
    title: 'GET /v1/tools, 10 000 tools, 1 000 callers, gzip',
    ...{ kind: 'figure', subject: 'principals', figure: 'gzip' },
    goals: atMost('ms', 150),
  },
  'openwop-memory': {
    title: 'memory kept by those reads: 1 000 callers over 4 callers, with the same 4 sets of scopes',
    ...{ kind: 'figure', subject: 'principals', figure: 'memoryRatio' },
    // Only the cache of a thousand verified keys may grow. A body kept for each caller would give a ratio of 250.
    goals: atMost('ratio', 1.25),
  },
  followers: {
    title: '1 000 SSE readers of one run with 100 calls: lag of the events',
    ...{ kind: 'figure', subject: 'followers', figure: 'lag' },
    goals: { unit: 'ms', best: 'low' },
  },
  'import-cpu': {
    title: "GitHub's document: processor time until its tools are served",
    ...{ kind: 'figure', subject: 'github', figure: 'cpu' },
    goals: atMost('ms', 5_000),
  },
  'import-stall': {
    title: "GitHub's document: longest time that the serving thread was blocked",
    ...{ kind: 'figure', subject: 'github', figure: 'stall' },
    goals: atMost('ms', 50),
  },
  'import-list': {
    title: "GitHub's document: bytes of GET /tools",
    ...{ kind: 'figure', subject: 'github', figure: 'listMegabytes' },
    goals: atMost('MB', 12),
  },
  'stripe-memory': {
    title: "Stripe's document, or one of its shape: peak memory above the memory before",
    ...{ kind: 'figure', subject: 'stripe', figure: 'megabytes' },
    goals: atMost('MB', 300),
  },
  'stripe-cpu': {
    title: "Stripe's document, or one of its shape: processor time until its tools are served",
    ...{ kind: 'figure', subject: 'stripe', figure: 'cpu' },
    goals: atMost('ms', 5_000),
  },
  'stripe-stall': {
    title: "Stripe's document, or one of its shape: longest time that the serving thread was blocked",
    ...{ kind: 'figure', subject: 'stripe', figure: 'stall' },
    goals: atMost('ms', 50),
  },
  noise: {
    title: 'bare against bare: the noise of this machine',
    ...rate('bare again', 'bare'),
    goals: FOR_INFORMATION,
  },
} as const satisfies Record<string, Row>

export type RowName = keyof typeof ROWS

export function isRowName(text: string): text is RowName {
  return Object.hasOwn(ROWS, text)
}

export function contendersOf(row: Row): readonly ContenderName[] {
  return row.kind === 'ratio' ? [row.against, row.contender] : []
}
