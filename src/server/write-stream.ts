import type { ServerResponse } from 'node:http'
import type { ReplyStream } from '#protocols/http-exchange'

/** A reader that takes nothing for this long is taken for gone. */
const STALLED_MS = 60_000

/**
 * Writes a stream's pieces as its reader takes them: the next one is asked for when the last has left, so a reader
 * that never reads costs one piece of memory, and each piece leaves by itself (OTS-51). Rejects with what the
 * stream threw.
 */
export async function writeStream(
  response: ServerResponse,
  stream: ReplyStream,
  stalledMs = STALLED_MS,
): Promise<void> {
  const ended = new AbortController()
  const leave = (): void => ended.abort()
  response.once('close', leave)
  try {
    if (response.req.method !== 'HEAD') {
      response.flushHeaders()
      for await (const piece of stream(ended.signal)) {
        if (response.destroyed) break
        await writePiece(response, piece, stalledMs)
      }
    }
    response.end()
  } catch (error) {
    // Half a stream must not look like a whole one.
    response.destroy()
    throw error
  } finally {
    response.off('close', leave)
    leave()
  }
}

/** Resolves when the piece has left, or nobody is there to take it. */
function writePiece(response: ServerResponse, piece: string, stalledMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => response.destroy(), stalledMs)
    const done = (): void => {
      clearTimeout(timer)
      response.off('close', done)
      resolve()
    }
    response.once('close', done)
    response.write(piece, done)
  })
}
