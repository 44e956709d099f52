/**
 * How a subsystem attaches to a server: it exports one function that opens it and returns a `ServerPart`. `start-server.ts` lists
 * these functions; services of a process without HTTP (`services.ts`) are parts too.
 * Invariant: parts are closed in the reverse order of their opening, even if a start fails.
 */

import type { Settings } from '#config/settings'
import type { MaybePromise } from '#kernel/base/waiting'
import type { ServerRoute } from './http/router.ts'

export interface ServerPart {
  readonly routes?: readonly ServerRoute[]
  /** Applies settings that changed while the server runs. */
  onReload?(settings: Settings): MaybePromise<ReloadNotes | undefined>
  close?(): MaybePromise<void>
}

/** What a part applied or refused besides settings, for example a certificate. */
export interface ReloadNotes {
  readonly applied: readonly string[]
  readonly refused: readonly string[]
}

/** A value that a reload replaces. Parts read `current` when they need it and keep no copy. */
export interface Live<Value> {
  readonly current: Value
}

/** The opened parts of one server or process. */
export class Parts implements ServerPart {
  readonly #parts: ServerPart[] = []

  add<Part extends ServerPart>(part: Part): Part {
    this.#parts.push(part)
    return part
  }

  get routes(): readonly ServerRoute[] {
    return this.#parts.flatMap(({ routes }) => routes ?? [])
  }

  async onReload(settings: Settings): Promise<ReloadNotes> {
    const notes: (ReloadNotes | undefined)[] = []
    for (const part of this.#parts) notes.push(await part.onReload?.(settings))
    return {
      applied: notes.flatMap((note) => note?.applied ?? []),
      refused: notes.flatMap((note) => note?.refused ?? []),
    }
  }

  /** Closes every part, the last one first. A part that fails does not keep the others open. */
  async close(): Promise<void> {
    const errors: unknown[] = []
    for (const part of this.#parts.splice(0).toReversed()) {
      try {
        await part.close?.()
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length > 0) throw errors[0]
  }
}

/** Opens parts with `open`. If that fails, the parts that are already open are closed before the error is thrown. */
export async function openParts<Opened>(open: (parts: Parts) => Promise<Opened>): Promise<Opened> {
  const parts = new Parts()
  try {
    return await open(parts)
  } catch (error) {
    // The first error is the useful one, so a failed close is ignored.
    await parts.close().catch(() => undefined)
    throw error
  }
}
