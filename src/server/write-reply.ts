import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HttpReply } from '#protocols/http-exchange'

/** How long, and how much, we go on reading a body nobody wants, so that its sender gets to see our answer. */
const LINGER_MS = 2_000
const LINGER_BYTES = 16 * 1_024 * 1_024

/** Header names and values, one after the other, as Node takes them unsorted and unchanged. */
export type HeaderList = readonly string[]

/** Sends a reply with the server's own headers added. Never throws. */
export function writeReply(response: ServerResponse, reply: HttpReply, added: HeaderList): void {
  const { req } = response
  const { body } = reply
  const headers: string[] = []
  for (const name of Object.keys(reply.headers)) headers.push(name, reply.headers[name] ?? '')
  for (const item of added) headers.push(item)
  if (reply.status !== 204 && reply.status !== 304) {
    headers.push('content-length', String(body === undefined ? 0 : Buffer.byteLength(body)))
  }
  const lingers = hasUnwantedBody(req)
  if (lingers) headers.push('connection', 'close')
  writeHead(response, reply.status, headers)
  if (lingers) endAfterBody(response, body)
  else response.end(req.method === 'HEAD' ? undefined : body)
}

function writeHead(response: ServerResponse, status: number, headers: string[]): void {
  try {
    response.writeHead(status, headers)
  } catch {
    // A value with characters no header may have, such as an echoed call id: the reply matters more.
    response.writeHead(
      status,
      headers.map((text, place) => (place % 2 === 0 ? text : encodeURI(text.toWellFormed()))),
    )
  }
}

/** A body that was not read to its end, and is not small enough for Node to skip it and keep the connection. */
function hasUnwantedBody(request: IncomingMessage): boolean {
  if (request.complete || request.readableEnded) return false
  return (
    request.headers['transfer-encoding'] !== undefined ||
    Number(request.headers['content-length'] ?? 0) > LINGER_FREE_BYTES
  )
}

const LINGER_FREE_BYTES = 64 * 1_024

/**
 * The whole reply leaves at once, the connection closes later: closing with unread bytes resets it, and the
 * reset can overtake the reply.
 */
function endAfterBody(response: ServerResponse, body: HttpReply['body']): void {
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
  }
  const timer = setTimeout(end, LINGER_MS)
  if (body !== undefined && req.method !== 'HEAD') response.write(body)
  else response.flushHeaders()
  req.on('data', onData).on('end', end).on('close', end)
  req.resume()
}
