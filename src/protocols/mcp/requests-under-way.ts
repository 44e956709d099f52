import type { CallerRequest, CallerStore } from '#core/ports/protocol-store'
import type { Clock, Logger } from '#core/runtime'

/** How soon a cancellation that another process heard of is seen. */
const POLL_MS = 500

export interface UnderWay {
  readonly isCancelled: boolean
  /** What to do when it is cancelled; asked at once when it is already. */
  onBegun(cancel: () => void): void
  end(): void
}

/** Requests that may be cancelled by their id, which only their session knows: the store carries it over (MCP-85, T-30). */
export class RequestsUnderWay {
  readonly #callers: CallerStore
  readonly #clock: Clock
  readonly #log: Logger
  readonly #here = new Map<string, { request: CallerRequest; cancel: () => void }>()
  #timer: NodeJS.Timeout | undefined

  constructor(options: { readonly callers: CallerStore; readonly clock: Clock; readonly log: Logger }) {
    this.#callers = options.callers
    this.#clock = options.clock
    this.#log = options.log
  }

  begin(request: CallerRequest): UnderWay {
    const key = keyOf(request)
    let isCancelled = false
    let stop: (() => void) | undefined
    const entry = {
      request,
      cancel: () => {
        isCancelled = true
        stop?.()
      },
    }
    this.#here.set(key, entry)
    // Beside the call, in the same commit: nobody waits for it.
    this.#write(() => this.#callers.beginRequest(request, this.#clock.nowMs()))
    this.#timer ??= setInterval(() => void this.#look(), POLL_MS).unref()
    return {
      get isCancelled() {
        return isCancelled
      },
      onBegun: (cancel) => {
        stop = cancel
        if (isCancelled) cancel()
      },
      end: () => {
        if (this.#here.get(key) === entry) this.#here.delete(key)
        this.#write(() => this.#callers.endRequest(request))
        if (this.#here.size === 0) this.close()
      },
    }
  }

  /** Unknown and finished requests are ignored. */
  cancel(request: CallerRequest): void {
    const here = this.#here.get(keyOf(request))
    if (here !== undefined) here.cancel()
    else this.#write(() => this.#callers.cancelRequest(request))
  }

  close(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async #look(): Promise<void> {
    for (const { request, cancel } of [...this.#here.values()]) {
      try {
        if (await this.#callers.isCancelled(request)) cancel()
      } catch (err) {
        this.#log.warn({ err }, 'cannot see whether requests were cancelled')
      }
    }
  }

  #write(change: () => unknown): void {
    const write = async (): Promise<void> => {
      await change()
    }
    write().catch((err: unknown) => this.#log.warn({ err }, 'a request under way was not noted'))
  }
}

function keyOf({ tenant, session, requestId }: CallerRequest): string {
  return JSON.stringify([tenant, session, requestId])
}
