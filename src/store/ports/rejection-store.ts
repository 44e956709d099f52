import type { RefusalCode } from '#kernel/base/errors'
import type { MaybePromise } from '#kernel/base/waiting'
import type { TallyQuery } from './operator-store.ts'

/** Requests of one caller for one tool that were rejected for one reason within one minute. */
export interface RejectedRequests {
  readonly tenant: string
  readonly principal: string
  /** Full id of a tool that the caller can see; empty for one that it cannot, whether hidden or unknown. */
  readonly tool: string
  readonly code: RefusalCode
  /** When the minute began. */
  readonly minuteMs: number
  readonly requests: number
  readonly lastAtMs: number
  /** What the last of them was answered. It may repeat text of the caller, so it is stored sealed. */
  readonly message: string
}

export interface StoredRejection extends RejectedRequests {
  /** Its place in the list: the larger, the newer. */
  readonly no: number
}

/** An absent member leaves nothing out. `tool` is compared as in `CallFilter`. */
export interface RejectionFilter {
  readonly tenant?: string | undefined
  readonly principal?: string | undefined
  readonly tool?: string | undefined
  readonly code?: RefusalCode | undefined
  readonly sinceMs?: number | undefined
  readonly untilMs?: number | undefined
}

/** Rejected requests, counted by the minute: a flood of them takes a few rows. */
export interface RejectionStore {
  add(rejected: readonly RejectedRequests[]): Promise<void>
  /** Newest first. `before` continues after the last row of a page. */
  list(
    filter: RejectionFilter & { readonly before?: number | undefined; readonly limit: number },
  ): MaybePromise<readonly StoredRejection[]>
  /** Requests per caller, tool, code and part of `bucketMs`, counted from `originMs` (absent: `sinceMs`) on. */
  count(filter: RejectionFilter & Pick<TallyQuery, 'sinceMs' | 'bucketMs' | 'originMs'>): MaybePromise<
    readonly (Pick<RejectedRequests, 'tenant' | 'principal' | 'tool' | 'code' | 'requests'> & {
      readonly bucket: number
    })[]
  >
}
