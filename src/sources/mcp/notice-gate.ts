import type { JSONRPCMessage } from '@modelcontextprotocol/client'

/** What the client does something about; the rest is news for nobody. */
const HEARD: ReadonlySet<string> = new Set([
  'notifications/progress',
  'notifications/cancelled',
  'notifications/tools/list_changed',
  'notifications/elicitation/complete',
])
/** So many at once, and then so many a second: more than any person follows, and too few to keep us busy. */
const AT_ONCE = 100
const A_SECOND = 50

/**
 * Lets the notices of one connection through at a bounded rate. The client takes a good part of a millisecond for each, so that
 * an upstream which sends nothing else would have this process to itself.
 */
export class NoticeGate {
  #left = AT_ONCE
  #filledMs = performance.now()

  /** Whether the client gets to see it. Requests and answers always pass. */
  lets(message: JSONRPCMessage): boolean {
    if ('id' in message || !('method' in message)) return true
    if (!HEARD.has(message.method)) return false
    const nowMs = performance.now()
    this.#left = Math.min(AT_ONCE, this.#left + ((nowMs - this.#filledMs) * A_SECOND) / 1000)
    this.#filledMs = nowMs
    if (this.#left < 1) return false
    this.#left -= 1
    return true
  }
}
