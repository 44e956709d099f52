import type { HttpReply } from '#protocols/http-exchange'

/** The plain `{ "message": … }` body of everything that belongs to no protocol (T-26). */
export function messageReply(
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  return jsonReply(status, { message }, headers)
}

export function jsonReply(
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
    body: JSON.stringify(body),
  }
}
