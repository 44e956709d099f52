import type { Progress } from '#core/call'
import type { JsonValue } from '#core/json'
import type { Channel } from './channel.ts'
import { encodeNotification } from './codec-answer.ts'

const PER_SECOND = 10

/** MCP-82: only with a token, only rising, ten a second after the first ten, and nothing after the end. */
export class ProgressGate {
  readonly #token: string | number
  readonly #channel: Channel
  #last = Number.NEGATIVE_INFINITY
  #left = PER_SECOND
  #filledAtMs = performance.now()
  #isEnded = false

  constructor(token: string | number, channel: Channel) {
    this.#token = token
    this.#channel = channel
  }

  readonly tell = ({ done, total, message }: Progress): void => {
    if (this.#isEnded || !Number.isFinite(done) || done <= this.#last || !this.#take()) return
    this.#last = done
    const params = {
      progressToken: this.#token,
      progress: done,
      ...(total === undefined || !Number.isFinite(total) ? {} : { total }),
      ...(message === undefined ? {} : { message }),
    }
    this.#channel.send(encodeNotification('notifications/progress', params), 'news')
  }

  end(): void {
    this.#isEnded = true
  }

  #take(): boolean {
    const nowMs = performance.now()
    this.#left = Math.min(PER_SECOND, this.#left + ((nowMs - this.#filledAtMs) / 1_000) * PER_SECOND)
    this.#filledAtMs = nowMs
    if (this.#left < 1) return false
    this.#left -= 1
    return true
  }
}

/** A string or a whole number; anything else asks for no progress. */
export function readProgressToken(token: JsonValue | undefined): string | number | undefined {
  return typeof token === 'string' || (typeof token === 'number' && Number.isSafeInteger(token))
    ? token
    : undefined
}
