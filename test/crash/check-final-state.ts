import { setTimeout as wait } from 'node:timers/promises'
import { type FinalCheck, isParked, type PlannedCall, type Reply } from './call-history.ts'
import { readState, sendCall } from './call-server.ts'
import { addressOf, type CrashStage, pickProtocol } from './crash-stage.ts'
import type { Address } from './exchange.ts'

const CONCURRENT_CHECKS = 16
/** As often as the server runs a released call (rule 9). */
const MAX_RELEASES = 3

/** After the last restart: sends every call once more, to each server or to some, and asks for its state. */
export async function checkFinalState(stage: CrashStage): Promise<Map<string, readonly FinalCheck[]>> {
  const looks = new Map<string, readonly FinalCheck[]>()
  const addresses = await Promise.all(stage.servers.map((_, server) => addressOf(stage, server)))
  const calls = stage.calls.entries()
  let next = 0
  const look = async (): Promise<void> => {
    for (const [key, call] of calls) {
      const seen: FinalCheck[] = []
      next += 1
      for (const address of inOrder(addresses, call, next).slice(0, stage.pace.looks)) {
        const reply = await sendUntilSettled(stage, address, { key, call })
        seen.push({ reply, state: await readStateAgain(stage, address, key) })
      }
      looks.set(key, seen)
    }
  }
  await Promise.all(Array.from({ length: CONCURRENT_CHECKS }, look))
  return looks
}

/** The server of the session comes first: others only redirect there until the call is recorded. Otherwise each server in turn. */
function inOrder(addresses: readonly Address[], { session }: PlannedCall, turn: number): readonly Address[] {
  const first = (session?.server ?? turn) % addresses.length
  return [...addresses.slice(first), ...addresses.slice(0, first)]
}

interface Look {
  readonly key: string
  readonly call: PlannedCall
}

/** Inside a session a released call is sent until it has used its attempts, because no other server could. */
async function sendUntilSettled(stage: CrashStage, address: Address, look: Look): Promise<Reply> {
  let reply = await sendOnce(stage, address, look)
  for (let more = 1; more < MAX_RELEASES && look.call.session !== undefined && reply.canRetry; more += 1) {
    reply = await sendOnce(stage, address, look)
  }
  return reply
}

/**
 * Nothing is killed any more, so a connection that keeps breaking is an error. A single break is allowed: on a busy
 * machine a few of a hundred thousand requests exceed the client's timeout.
 */
const MAX_BREAKS = 5

async function sendOnce(stage: CrashStage, address: Address, { key, call }: Look): Promise<Reply> {
  const { retryDelayMs, maxSendings } = stage.pace
  let [last, breaks] = ['', 0]
  for (let attempt = 0; attempt < maxSendings; attempt += 1) {
    const reply = await sendCall(address, key, call, pickProtocol(stage))
    if (reply === undefined) breaks += 1
    if (breaks === MAX_BREAKS) throw new Error(`The connection keeps breaking at the final check of ${key}.`)
    if (reply !== undefined && !reply.asksForRetry && !isParked(reply)) return reply
    last = reply?.body ?? 'the connection broke'
    await wait(retryDelayMs)
  }
  throw new Error(`The server still asks for a retry of ${key} after ${maxSendings} attempts: ${last}`)
}

async function readStateAgain(
  { pace }: CrashStage,
  address: Address,
  key: string,
): Promise<string | undefined> {
  for (let breaks = 1; ; breaks += 1) {
    try {
      return await readState(address, key)
    } catch (error) {
      if (breaks === MAX_BREAKS) throw error
      await wait(pace.retryDelayMs)
    }
  }
}
