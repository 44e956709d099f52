import type { Kill, PlannedCall, Reply, Sending, Way } from './call-history.ts'
import type { Reading } from './run-history.ts'
import type { Random } from './seeded-random.ts'
import type { ServerProcess } from './server-process.ts'
import type { DrivenSession } from './session-history.ts'

/** Timeouts of all processes. */
export interface Pace {
  readonly replyLimitMs: number
  readonly comeAgainMs: number
  /** How often one call, or one last look, is sent before that is an error. */
  readonly maxSendings: number
  /** One run in so many has a reader. */
  readonly readerEvery: number
  /** From how many servers each call is looked at in the end. */
  readonly looks: number
}

export const CRASH_PACE: Pace = {
  replyLimitMs: 30_000,
  comeAgainMs: 20,
  maxSendings: 500,
  readerEvery: 3,
  looks: 2,
}

/** What callers, readers, killer and last look share; it only grows. */
export interface CrashStage {
  readonly servers: readonly ServerProcess[]
  readonly apiKey: string
  /** Calls go over any of these, and come again over any other. */
  readonly ways: readonly Way[]
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
  /** Runs that the driver ended; until then a stream that ends was ended by a server that left. */
  readonly ended: Set<string>
  /** Sends the readers home, whatever they have seen. */
  readonly leave: AbortController
}

/** The server a request goes to: the wanted one, or while it is down another that listens. */
export function pickServer(stage: CrashStage, wanted: number): number {
  if (stage.servers[wanted]?.listening) return wanted
  const other = stage.servers.findIndex((server) => server.listening)
  return other === -1 ? wanted : other
}

/** Where that server listens, once it does. */
export async function addressOf(stage: CrashStage, server: number) {
  const process = stage.servers[server]
  if (process === undefined) throw new Error(`There is no server ${server}.`)
  return { url: await process.url(), apiKey: stage.apiKey, limitMs: stage.pace.replyLimitMs }
}

/** A protocol for the next request. */
export function pickWay({ ways, random }: CrashStage): Way {
  return ways[Math.floor(random() * ways.length)] ?? 'otc'
}
