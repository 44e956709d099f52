import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HttpReply, ReplyStream } from '#protocols/http-exchange'

/** How much of an unwanted body we go on reading, so that its sender gets to see our answer. */
const LINGER_BYTES = 16 * 1_024 * 1_024
/** How long we wait for more of it; the time limit of the whole request still holds. */
const LINGER_IDLE_MS = 500
/** Up to here Node skips an unread body and keeps the connection. */
const SKIPPED_BYTES = 64 * 1_024

/**
 * Sends a reply. Gives the end of a stream; everything else has left.
 * @param headers names and values, one after the other, as Node takes them unsorted and unchanged
 * @param isLast whether the connection closes after it
 */
export function writeReply(
  response: ServerResponse,
  { status, body }: HttpReply,
  headers: string[],
  isLast: boolean,
): Promise<void> | undefined {
  const { req } = response
  if (isLast) headers.push('connection', 'close')
  if (typeof body === 'function') {
    writeHead(response, status, headers)
    return writeStream(response, body)
  }
  if (status !== 204 && status !== 304)
    headers.push('content-length', String(body === undefined ? 0 : Buffer.byteLength(body)))
  const lingers = hasUnwantedBody(req)
  if (lingers && !isLast) headers.push('connection', 'close')
  writeHead(response, status, headers)
  if (lingers) endAfterBody(response, body)
  else response.end(req.method === 'HEAD' ? undefined : body)
  return undefined
}

function writeHead(response: ServerResponse, status: number, headers: string[]): void {
  try {
    response.writeHead(status, headers)
  } catch {
    // Text no header can carry, such as an echoed call id: it goes percent-encoded, for the reply matters more.
    response.writeHead(status, headers.map(toHeaderText))
  }
}

function toHeaderText(text: string): string {
  return /^[\t\x20-\x7e]*$/.test(text) ? text : encodeURI(text.toWellFormed())
}

/** A body that was not read to its end and is not small. */
function hasUnwantedBody(request: IncomingMessage): boolean {
  if (request.complete || request.readableEnded) return false
  return (
    request.headers['transfer-encoding'] !== undefined ||
    Number(request.headers['content-length'] ?? 0) > SKIPPED_BYTES
  )
}

/**
 * The whole reply leaves at once, the connection closes later: closing with unread bytes resets it, and the
 * reset can overtake the reply.
 */
function endAfterBody(response: ServerResponse, body: string | Uint8Array | undefined): void {
  const { req } = response
  let left = LINGER_BYTES
  const end = (): void => {
    clearTimeout(timer)
    req.off('data', onData).off('end', end).off('close', end)
    response.end()
  }
  const onData = (chunk: Buffer): void => {
    left -= chunk.length
    if (left <= 0) end()
    else timer.refresh()
  }
  const timer = setTimeout(end, LINGER_IDLE_MS)
  if (body !== undefined && req.method !== 'HEAD') response.write(body)
  else response.flushHeaders()
  req.on('data', onData).on('end', end).on('close', end)
  req.resume()
}

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

/** Resolves when the piece has left, or its reader is gone. */
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
