import { setTimeout as wait } from 'node:timers/promises'
import type { LastLook, Reply } from './call-history.ts'
import { type Address, readState, sendCall } from './call-server.ts'
import { addressOf, type CrashStage } from './crash-stage.ts'
import type { EffectTool } from './effect-log.ts'

const LOOKERS = 16
const MOST_TRIES = 50
const COME_AGAIN_MS = 20

/** After the last restart: sends every call once more to each server, and asks for its state. */
export async function lookLast(stage: CrashStage): Promise<Map<string, readonly LastLook[]>> {
  const looks = new Map<string, readonly LastLook[]>()
  const addresses = await Promise.all(stage.servers.map((_, server) => addressOf(stage, server)))
  const calls = stage.tools.entries()
  const look = async (): Promise<void> => {
    for (const [key, tool] of calls) {
      const seen: LastLook[] = []
      for (const address of addresses) {
        const reply = await sendOnce(address, tool, key)
        seen.push({ reply, state: await readState(address, key) })
      }
      looks.set(key, seen)
    }
  }
  await Promise.all(Array.from({ length: LOOKERS }, look))
  return looks
}

/** Nothing is killed any more, so a broken connection is an error; only "come again" is waited for. */
async function sendOnce(address: Address, tool: EffectTool, key: string): Promise<Reply> {
  for (let attempt = 0; attempt < MOST_TRIES; attempt += 1) {
    const reply = await sendCall(address, tool, key)
    if (reply === undefined) throw new Error(`The connection broke at the last look at ${key}.`)
    if (!reply.comeAgain) return reply
    await wait(COME_AGAIN_MS)
  }
  throw new Error(`The server still asks to come again for ${key} after ${MOST_TRIES} tries.`)
}
