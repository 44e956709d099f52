import type { HttpReply } from '#protocols/http-exchange'

/** An answer that is of now, and the caller's alone. */
export function jsonReply(status: number, body: object): HttpReply {
  return {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
    body: JSON.stringify(body),
  }
}

export function noContent(): HttpReply {
  return { status: 204, headers: { 'cache-control': 'no-store' }, body: undefined }
}
