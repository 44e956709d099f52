import {
  addCall,
  type BenchRequest,
  CALL_ID_MARK,
  fastmcpAddCall,
  mcpAddCall,
  opentoolAddCall,
} from './bench-request.ts'
import type { ServerCommand } from './bench-server.ts'
import { BUMP_TOOL } from './servers/add-contract.ts'

export interface Contender {
  readonly title: string
  readonly command: ServerCommand
  readonly request: BenchRequest
  /** Number of open connections; default 32. */
  readonly connections?: number
  /** `open`: needs no credential. `own`: uses a credential that the server creates. Default: the shared benchmark key. */
  readonly access?: 'open' | 'own'
}

function collet(store: 'memory' | 'sqlite' | 'postgres', tools = 10): ServerCommand {
  const args = [`--store=${store}`, `--tools=${tools}`]
  return { file: 'collet', args, needsDatabase: store === 'postgres' }
}

/** Servers that differ only in how callers authenticate. */
function withAuth(auth: 'none' | 'stored-key' | 'jwt'): ServerCommand {
  const { file, args } = collet('memory')
  return { file, args: [...args, `--auth=${auth}`] }
}

/** The number of connections with which the OpenTool SDK was measured (OTS-90). */
const OPENTOOL_CONNECTIONS = 10

/** Enough connections for large commit groups on a database in another process. */
const MANY_CONNECTIONS = 128

const BARE: ServerCommand = { file: 'bare', args: [] }

export const CONTENDERS = {
  bare: { title: 'bare node:http', command: BARE, request: addCall() },
  'bare again': { title: 'bare node:http', command: BARE, request: addCall() },
  memory: { title: 'memory store', command: collet('memory'), request: addCall() },
  sqlite: { title: 'SQLite', command: collet('sqlite'), request: addCall() },
  'sqlite at 128': {
    title: 'SQLite, 128 connections',
    command: collet('sqlite'),
    request: addCall(),
    connections: MANY_CONNECTIONS,
  },
  postgres: { title: 'PostgreSQL', command: collet('postgres'), request: addCall() },
  'postgres at 128': {
    title: 'PostgreSQL, 128 connections',
    command: collet('postgres'),
    request: addCall(),
    connections: MANY_CONNECTIONS,
  },
  fastify: { title: 'Fastify', command: { file: 'fastify', args: [] }, request: addCall() },
  'no auth': {
    title: 'memory store, no auth',
    command: withAuth('none'),
    request: addCall(),
    access: 'open',
  },
  'stored key': {
    title: 'memory store, key of the store',
    command: withAuth('stored-key'),
    request: addCall(),
    access: 'own',
  },
  jwt: { title: 'memory store, JWT', command: withAuth('jwt'), request: addCall(), access: 'own' },
  keyed: {
    title: 'SQLite, call ids',
    command: collet('sqlite'),
    request: addCall(undefined, CALL_ID_MARK),
  },
  limited: {
    title: 'SQLite, limits and budgets',
    command: { file: 'collet', args: ['--store=sqlite', '--tools=10', '--limits'] },
    request: addCall(),
  },
  write: { title: 'SQLite, write tool', command: collet('sqlite'), request: addCall(BUMP_TOOL) },
  'bare at 10': {
    title: 'bare node:http, 10 connections',
    command: BARE,
    request: addCall(),
    connections: OPENTOOL_CONNECTIONS,
  },
  opentool: {
    title: 'SQLite, OpenTool',
    command: collet('sqlite'),
    request: opentoolAddCall(),
    connections: OPENTOOL_CONNECTIONS,
  },
  'opentool memory': {
    title: 'memory, OpenTool',
    command: collet('memory'),
    request: opentoolAddCall(),
    connections: OPENTOOL_CONNECTIONS,
  },
  mcp: { title: 'MCP SDK v2', command: { file: 'mcp', args: [] }, request: mcpAddCall() },
  fastmcp: { title: 'FastMCP', command: { file: 'fastmcp', args: [] }, request: fastmcpAddCall() },
  'mcp sqlite': { title: 'SQLite, MCP', command: collet('sqlite'), request: mcpAddCall() },
  'tools 1000': { title: '1 000 tools', command: collet('memory', 1_000), request: addCall() },
  'tools 10000': { title: '10 000 tools', command: collet('memory', 10_000), request: addCall() },
} as const satisfies Record<string, Contender>

export type ContenderName = keyof typeof CONTENDERS

/** A catalog that takes noticeable time to list. */
export const LARGE_CATALOG = { tools: 10_000, command: collet('sqlite', 10_000) } as const

/** The large catalog with this many additional callers. */
export function manyPrincipals(principals: number): ServerCommand {
  const { file, args } = LARGE_CATALOG.command
  return { file, args: [...args, `--principals=${principals}`] }
}

export function isContenderName(text: string): text is ContenderName {
  return Object.hasOwn(CONTENDERS, text)
}
