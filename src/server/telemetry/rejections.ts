/**
 * Counts the requests that the gateway rejects before it records a call: unknown tool, invalid input, used-up budget and so
 * on. Without these counts an outage of one caller would look like silence. Counts are kept per caller, tool, code and
 * minute and written once a second, so a flood costs a few rows and a successful call costs nothing.
 */

import type { Clock } from '#kernel/base/clock'
import { isRefusal } from '#kernel/base/errors'
import type { Logger } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import type { CallReply, CallRequest } from '#kernel/call/call'
import type { Gateway } from '#kernel/call/gateway'
import type { RejectedRequests, RejectionStore } from '#store/rejections'

const WRITE_EVERY_MS = 1_000
const MINUTE_MS = 60_000
/** Tools of one caller that are counted apart between two writes; the rest are counted without the name of their tool. */
const MAX_TOOLS_PER_CALLER = 50
/** Different rows between two writes; rejections beyond them go to the log as a number. */
const MAX_ROWS = 2_000
const MAX_MESSAGE_CHARACTERS = 500

/** The same gateway, whose rejected requests are counted. Parked calls are recorded, so they are not rejections. */
export function countRejections(gateway: Gateway, log: RejectionLog): Gateway {
  return {
    ...gateway,
    async call(principal, request) {
      const reply = await gateway.call(principal, request)
      log.note(principal, reply, () => toolOf(gateway, principal, request))
      return reply
    },
  }
}

/** Hidden and unknown tools are counted alike, so that neither the count nor its cost tells them apart (rule 2). */
function toolOf(gateway: Gateway, principal: Principal, request: CallRequest): string {
  return gateway.catalogFor(principal).resolve(request.tool)?.id ?? ''
}

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

  /** Counts the reply if it is a rejection. Never throws, never waits. */
  note(principal: Principal, { outcome, replayed, tool: ran }: CallReply, findTool: () => string): void {
    if (outcome.ok || replayed || ran !== undefined) return
    const { code, message } = outcome.error
    if (!isRefusal(code) || code === 'approval_required') return
    const lastAtMs = this.#options.clock.nowMs()
    const { tenant, id } = principal
    const tool = this.#tellApart(JSON.stringify([tenant, id]), findTool())
    const minuteMs = lastAtMs - (lastAtMs % MINUTE_MS)
    const key = JSON.stringify([tenant, id, tool, code, minuteMs])
    const requests = (this.#rows.get(key)?.requests ?? 0) + 1
    if (requests === 1 && this.#rows.size >= MAX_ROWS) {
      this.#dropped += 1
      return
    }
    const text = cut(message)
    this.#rows.set(key, { tenant, principal: id, tool, code, minuteMs, requests, lastAtMs, message: text })
    this.#timer ??= setTimeout(() => this.#write(), WRITE_EVERY_MS).unref()
  }

  /** Writes what is still counted. */
  async close(): Promise<void> {
    this.#write()
    await this.#writing
  }

  #tellApart(caller: string, tool: string): string {
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
    if (dropped > 0) log.warn({ dropped }, 'more kinds of rejected requests than are counted in a second')
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

/** A message can hold what a caller wrote: NUL cannot be stored, and its end says the least. */
function cut(message: string): string {
  const plain = message.replaceAll('\0', '')
  return plain.length > MAX_MESSAGE_CHARACTERS ? `${plain.slice(0, MAX_MESSAGE_CHARACTERS - 1)}…` : plain
}
