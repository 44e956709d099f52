/**
 * Counts the requests that the gateway rejects before it records a call: unknown tool, invalid input, used-up budget and so
 * on. Without these counts a caller whose requests all fail would leave no trace. `observeCalls` reports the requests. Counts are kept per
 * caller, tool, code and minute and written once a second, so a flood costs a few rows and a successful call costs nothing.
 */

import type { Clock } from '#kernel/base/clock'
import type { Logger } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import type { RejectedRequests, RejectionStore } from '#store/rejections'

const WRITE_EVERY_MS = 1_000
const MINUTE_MS = 60_000
/** Maximum number of tools that are counted separately for a caller between two writes; further tools are counted without their name. */
const MAX_TOOLS_PER_CALLER = 50
/** Maximum number of rows between two writes; further rejections are dropped, and their number is logged. */
const MAX_ROWS = 2_000
const MAX_MESSAGE_CHARACTERS = 500

interface RejectionLogOptions {
  readonly store: RejectionStore
  readonly clock: Clock
  readonly log: Logger
}

export class RejectionLog {
  readonly #options: RejectionLogOptions
  #rows = new Map<string, RejectedRequests>()
  #toolsOf = new Map<string, number>()
  #dropped = 0
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> = Promise.resolve()

  constructor(options: RejectionLogOptions) {
    this.#options = options
  }

  /** Counts a rejected request. `name` is the id of the tool, or empty if the caller cannot see the tool. Never throws, never waits. */
  count(
    { tenant, id }: Principal,
    { code, message }: Pick<RejectedRequests, 'code' | 'message'>,
    name: string,
  ): void {
    const lastAtMs = this.#options.clock.nowMs()
    const tool = this.#boundTool(JSON.stringify([tenant, id]), name)
    const minuteMs = lastAtMs - (lastAtMs % MINUTE_MS)
    const key = JSON.stringify([tenant, id, tool, code, minuteMs])
    const requests = (this.#rows.get(key)?.requests ?? 0) + 1
    if (requests === 1 && this.#rows.size >= MAX_ROWS) {
      this.#dropped += 1
      return
    }
    const text = shorten(message)
    this.#rows.set(key, { tenant, principal: id, tool, code, minuteMs, requests, lastAtMs, message: text })
    this.#timer ??= setTimeout(() => this.#write(), WRITE_EVERY_MS).unref()
  }

  /** Writes the counts that are not written yet. */
  async close(): Promise<void> {
    this.#write()
    await this.#writing
  }

  /** The tool, or an empty name if too many tools are already counted for the caller. */
  #boundTool(caller: string, tool: string): string {
    const named = `${caller}${tool}`
    if (tool === '' || this.#toolsOf.has(named)) return tool
    const tools = (this.#toolsOf.get(caller) ?? 0) + 1
    if (tools > MAX_TOOLS_PER_CALLER) return ''
    this.#toolsOf.set(caller, tools).set(named, 1)
    return tool
  }

  #write(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const { store, log } = this.#options
    const [rows, dropped] = [[...this.#rows.values()], this.#dropped]
    this.#rows = new Map()
    this.#toolsOf = new Map()
    this.#dropped = 0
    if (dropped > 0)
      log.warn({ dropped }, 'too many kinds of rejected requests in a second; the rest is dropped')
    if (rows.length === 0) return
    this.#writing = this.#writing.then(async () => {
      try {
        await store.add(rows)
      } catch (err) {
        log.error({ err, rows: rows.length }, 'counts of rejected requests could not be written')
      }
    })
  }
}

/** Removes NUL, which cannot be stored, and shortens a message, which may contain a caller's text. */
function shorten(message: string): string {
  const plain = message.replaceAll('\0', '')
  return plain.length > MAX_MESSAGE_CHARACTERS ? `${plain.slice(0, MAX_MESSAGE_CHARACTERS - 1)}…` : plain
}
