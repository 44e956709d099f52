import type { Principal } from '#core/principal'
import type { CatalogChanges } from '#core/tools/catalog'
import type { ReplyStream } from '#protocols/http-exchange'
import { encodeEvent, encodeNotification } from './codec-answer.ts'
import { FrameQueue } from './frame-queue.ts'
import { LIST_CHANGED } from './listen-streams.ts'
import type { OpenStreams } from './open-streams.ts'

const KEEP_ALIVE_MS = 15_000
/** Also how soon the end of a session in another process is seen. */
const KEEP_ALIVE = ':\n\n'

/** GET streams of older revisions: news of the list, on the newest stream of each session only (MCP-24, MCP-25, MCP-46). */
export class ChangeStreams {
  readonly #changes: CatalogChanges
  readonly #places: OpenStreams
  readonly #newest = new Map<string, FrameQueue>()
  readonly #all = new Set<FrameQueue>()

  constructor(changes: CatalogChanges, places: OpenStreams) {
    this.#changes = changes
    this.#places = places
  }

  /** `undefined` when this principal has no place for another one. */
  open(principal: Principal, sessionId: string, isOpen: () => Promise<boolean>): ReplyStream | undefined {
    if (this.#places.isFull(principal)) return undefined
    return (ended) => this.#pieces(principal, sessionId, { isOpen, ended })
  }

  end(sessionId: string): void {
    this.#newest.get(sessionId)?.end()
  }

  close(): void {
    for (const queue of this.#all) queue.end()
  }

  async *#pieces(
    principal: Principal,
    sessionId: string,
    { isOpen, ended }: { readonly isOpen: () => Promise<boolean>; readonly ended: AbortSignal },
  ): AsyncGenerator<string> {
    // Taken by whoever reads, so that a reader who never came holds none.
    const leave = this.#places.take(principal)
    if (leave === undefined) return
    const queue = new FrameQueue()
    this.#newest.set(sessionId, queue)
    this.#all.add(queue)
    const stop = this.#changes.listen((isAffected) => {
      if (this.#newest.get(sessionId) !== queue || !isAffected(principal)) return
      queue.add(encodeEvent(encodeNotification(LIST_CHANGED)), true)
    })
    ended.addEventListener('abort', () => queue.end(), { once: true })
    try {
      for (;;) {
        const frame = await queue.next(KEEP_ALIVE_MS)
        if (frame === undefined || (frame === 'late' && !(await isOpen()))) return
        yield frame === 'late' ? KEEP_ALIVE : frame
      }
    } finally {
      stop()
      leave()
      this.#all.delete(queue)
      if (this.#newest.get(sessionId) === queue) this.#newest.delete(sessionId)
    }
  }
}
