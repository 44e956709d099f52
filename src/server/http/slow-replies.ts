/**
 * Sends replies that take time: streams, whose pieces wait for their reader, and replies to a request whose body is still arriving.
 * `exchange.ts` uses this module. Each wait has a limit, so that a client that stops reading or sending does not hold resources.
 */

import type { ServerResponse } from 'node:http'
import type { ReplyStream } from '#protocols/http-exchange'

/** How much of an unwanted body is read, so that its sender receives the reply. */
const LINGER_BYTES = 16 * 1_024 * 1_024
/** Maximum wait for more of the unwanted body; the time limit of the whole request still applies. */
const LINGER_IDLE_MS = 500

/**
 * Sends the whole reply at once and closes the connection later: closing with unread bytes resets it, and the
 * reset can overtake the reply.
 */
export function endAfterBody(response: ServerResponse, body: string | Uint8Array | undefined): void {
  const { req } = response
  let remainingBytes = LINGER_BYTES
  const end = (): void => {
    clearTimeout(timer)
    req.off('data', onData).off('end', end).off('close', end)
    response.end()
  }
  const onData = (chunk: Buffer): void => {
    remainingBytes -= chunk.length
    if (remainingBytes <= 0) end()
    else timer.refresh()
  }
  const timer = setTimeout(end, LINGER_IDLE_MS)
  if (body !== undefined && req.method !== 'HEAD') response.write(body)
  else response.flushHeaders()
  req.on('data', onData).on('end', end).on('close', end)
  req.resume()
}

/** A reader that reads nothing for this long is disconnected. */
const STALLED_MS = 60_000

/**
 * Writes the pieces of a stream as its reader takes them. The next piece is requested when the previous piece has left, so a reader
 * that never reads costs one piece of memory, and each piece is sent separately (OTS-51). Rejects with what the stream threw.
 */
export async function writeStream(
  response: ServerResponse,
  stream: ReplyStream,
  stalledMs = STALLED_MS,
): Promise<void> {
  const ended = new AbortController()
  const abort = (): void => ended.abort()
  // `once` would keep two more objects for each of thousands of readers; aborting twice does no harm.
  response.on('close', abort)
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
    // An incomplete stream must not look complete.
    response.destroy()
    throw error
  } finally {
    response.off('close', abort)
    abort()
  }
}

/** Resolves when the piece has left, or the connection is closed. */
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
