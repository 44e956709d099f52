import { type Clock, SYSTEM_CLOCK } from '#core/ports/clock'

/** What an operator may choose about this protocol. */
export interface OtcOptions {
  /** Shown at `/uts/info` and in the OpenAPI document. */
  readonly serverVersion: string
  /** Keeps `developer_message` off the wire (T-20). */
  readonly hideDeveloperMessages?: boolean
  /** Refuses request members that no published shape has (T-23). */
  readonly strictRequests?: boolean
  /** Leaves one of the two list keys out of answers that would carry both (T-31). */
  readonly omitListKey?: 'tools' | 'items'
  readonly clock?: Clock
}

/** The same with every default filled in. */
export interface OtcSettings {
  readonly serverVersion: string
  readonly hideDeveloperMessages: boolean
  readonly strict: boolean
  readonly omitListKey: 'tools' | 'items' | undefined
  readonly clock: Clock
}

export function otcSettings(options: OtcOptions): OtcSettings {
  return {
    serverVersion: options.serverVersion,
    hideDeveloperMessages: options.hideDeveloperMessages ?? false,
    strict: options.strictRequests ?? false,
    omitListKey: options.omitListKey,
    clock: options.clock ?? SYSTEM_CLOCK,
  }
}
