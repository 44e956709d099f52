import type { HttpRoute } from '#protocols/http-exchange'
import { refuse } from './refuse.ts'

/** A route that needs no credential and reads no body. */
export function openGet(path: string, handle: HttpRoute['handle']): HttpRoute {
  return { method: 'GET', path, access: 'open', body: 'never', handle, refuse }
}
