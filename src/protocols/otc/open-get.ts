import type { HttpRoute } from '#protocols/http-exchange'
import type { OtcSettings } from './options.ts'
import { refuseWith } from './reply.ts'

/** A route that needs no credential and reads no body. */
export function openGet(path: string, settings: OtcSettings, handle: HttpRoute['handle']): HttpRoute {
  return {
    method: 'GET',
    path,
    access: 'open',
    body: 'never',
    handle,
    refuse: refuseWith(settings),
  }
}
