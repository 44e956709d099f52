import type { WireChallenges, WireMissing } from '#protocols/call-wire'

/*
 * Paths, the default port and error shapes of OpenTool's wire format. The routes, the codecs and the CLI share them.
 * Invariant: members keep their wire spelling only here.
 */

/** All paths of this protocol are below this path (OTS-30). */
export const BASE_PATH = '/opentool'
export const VERSION_PATH = `${BASE_PATH}/version`
export const LOAD_PATH = `${BASE_PATH}/load`
export const CALL_PATH = `${BASE_PATH}/call`
export const STREAM_PATH = `${BASE_PATH}/streamCall`
export const STOP_PATH = `${BASE_PATH}/stop`

/** The port that the specification names (OTS-31). */
export const DEFAULT_PORT = 9_627

export const JSON_TYPE = 'application/json; charset=utf-8'

/** The `error` of an answer (OTS-39). `data` is an extension of Collet; clients of other vendors show only the message. */
export interface WireError {
  readonly code: number
  readonly message: string
  readonly data?: WireErrorData
}

export interface WireErrorData {
  /** The stable error code, as in docs/errors.md. */
  readonly code: string
  readonly call_id: string
  readonly missing_requirements?: WireMissing
  /** Provider and scopes of each challenge, by its id. */
  readonly challenges?: WireChallenges
  readonly parameter_errors?: Readonly<Record<string, string>>
  readonly can_retry?: true
  readonly retry_after_ms?: number
  readonly additional_prompt_content?: string
  /** A write was interrupted after it started: check its effect before repeating it (rule 10). */
  readonly effect?: 'unknown'
}
