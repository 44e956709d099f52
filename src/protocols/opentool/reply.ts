import type { HttpReply } from '#protocols/http-exchange'
import { JSON_TYPE } from './wire.ts'

export function jsonReply(
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  return { status, headers: { 'content-type': JSON_TYPE, ...headers }, body }
}

/** How everything outside an envelope is refused (OTS-46, OTS-48). */
export function errorReply(
  status: number,
  error: string,
  headers: Readonly<Record<string, string>> = {},
): HttpReply {
  return jsonReply(status, JSON.stringify({ error }), headers)
}
