import type { CallProtocol, Kill, PlannedCall, Reply, Sending } from './call-history.ts'
import type { Reading } from './run-history.ts'
import type { Random } from './seeded-random.ts'
import type { ServerProcess } from './server-process.ts'
import type { DrivenSession } from './session-history.ts'

/** Timeouts of all processes. */
export interface Pace {
  readonly replyLimitMs: number
  readonly retryDelayMs: number
  /** How often one call, or one final check, is sent before that is an error. */
  readonly maxSendings: number
  /** One run in this many has a reader. */
  readonly readerEvery: number
  /** Number of servers from which each call is checked at the end. */
  readonly looks: number
}

export const CRASH_PACE: Pace = {
  replyLimitMs: 30_000,
  retryDelayMs: 20,
  maxSendings: 500,
  readerEvery: 3,
  looks: 2,
}

/** State that callers, readers, the killer and the final check share; it only grows. */
export interface CrashStage {
  readonly servers: readonly ServerProcess[]
  readonly apiKey: string
  /** Protocols of calls; a repetition may use another one. */
  readonly protocols: readonly CallProtocol[]
  readonly pace: Pace
  readonly random: Random
  readonly calls: Map<string, PlannedCall>
  readonly sendings: Sending[]
  readonly kills: Kill[]
  readonly sessions: DrivenSession[]
  /** Runs that callers named. */
  readonly runs: Set<string>
  /** Workflows by key, with the answers of their callers. */
  readonly flows: Map<string, Reply | undefined>
  /** Steps that an operator settled. */
  readonly settled: string[]
  readonly readings: Map<string, Promise<Reading>>
  /** Runs that the driver ended. The stream of any other run ends only if its server stops. */
  readonly ended: Set<string>
  /** Stops all readers. */
  readonly leave: AbortController
}

/** The server for a request: the wanted one, or another that listens while it is down. */
export function pickServer(stage: CrashStage, wanted: number): number {
  if (stage.servers[wanted]?.listening) return wanted
  const other = stage.servers.findIndex((server) => server.listening)
  return other === -1 ? wanted : other
}

/** The address of a server, once it listens. */
export async function addressOf(stage: CrashStage, server: number) {
  const process = stage.servers[server]
  if (process === undefined) throw new Error(`There is no server ${server}.`)
  return { url: await process.url(), apiKey: stage.apiKey, limitMs: stage.pace.replyLimitMs }
}

/** A protocol for the next request. */
export function pickProtocol({ protocols, random }: CrashStage): CallProtocol {
  return protocols[Math.floor(random() * protocols.length)] ?? 'otc'
}
