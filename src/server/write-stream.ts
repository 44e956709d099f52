import type { ServerResponse } from 'node:http'
import type { ReplyStream } from '#protocols/http-exchange'

/** A reader that takes nothing for this long is taken for gone. */
const STALLED_MS = 60_000

/**
 * Writes a stream's pieces as its reader takes them: while a write waits in the socket no further piece is asked
 * for, so a reader that never reads costs one piece of memory. Rejects with what the stream itself threw.
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
        if (ended.signal.aborted) break
        if (!response.write(piece)) await drained(response, stalledMs)
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

/** The reader has taken what was written, or is gone. */
function drained(response: ServerResponse, stalledMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => response.destroy(), stalledMs)
    const done = (): void => {
      clearTimeout(timer)
      response.off('drain', done).off('close', done)
      resolve()
    }
    response.on('drain', done).on('close', done)
    if (response.destroyed) done()
  })
}
