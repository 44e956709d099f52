import { type Clock, SYSTEM_CLOCK } from '#kernel/base/clock'
import type { HttpRoute } from '#protocols/http-exchange'
import type { Consents, ProtocolServices } from '#protocols/protocol'
import type { DecodeOptions } from './codec-request.ts'
import { type EncodeOptions, refuseWith } from './codec-response.ts'
import { DEFAULT_SCHEMA_ID } from './wire.ts'

/*
 * Options of the OTC protocol with their defaults, and the helper for routes without a credential. The routes and pages of this
 * folder use it.
 * Invariant: `OtcSettings` has every default filled in.
 */

export interface OtcSettings extends DecodeOptions, EncodeOptions {
  /** Shown at `/uts/info` and in the OpenAPI document. */
  readonly serverVersion: string
  /** The key that is left out of lists that would have both (OTC/T-31). */
  readonly omitListKey: 'tools' | 'items' | undefined
  readonly clock: Clock
  readonly consents: Consents | undefined
  /** Answers `?q=` of the list; without it the parameter is ignored. */
  readonly search: ProtocolServices['search']
}

export type OtcOptions = Pick<OtcSettings, 'serverVersion'> & {
  readonly [Name in keyof OtcSettings]?: OtcSettings[Name] | undefined
}

export function otcSettings(options: OtcOptions): OtcSettings {
  return {
    serverVersion: options.serverVersion,
    hideDeveloperMessages: options.hideDeveloperMessages ?? false,
    strictRequests: options.strictRequests ?? false,
    omitListKey: options.omitListKey,
    defaultSchema: options.defaultSchema ?? DEFAULT_SCHEMA_ID,
    clock: options.clock ?? SYSTEM_CLOCK,
    consents: options.consents,
    search: options.search,
  }
}

/** A route that needs no credential and reads no body. */
export function openGet(path: string, settings: OtcSettings, handle: HttpRoute['handle']): HttpRoute {
  return { method: 'GET', path, access: 'open', body: 'never', handle, refuse: refuseWith(settings) }
}
