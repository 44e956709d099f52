import type { Clock } from '#core/ports/clock'
import type { Hooks } from '#core/ports/hooks'
import type { Logger } from '#core/ports/logger'
import type { Store } from '#core/ports/store'
import type { Registry } from '#core/registry'
import type { OutcomeKeeper } from './outcome-keeper.ts'
import type { Readiness } from './readiness.ts'
import type { RunningCalls } from './running-calls.ts'

/** Everything the call pipeline needs from outside, handed in once. */
export interface CallServices {
  readonly registry: Registry
  readonly store: Store
  readonly clock: Clock
  readonly log: Logger
  readonly fetch: typeof fetch
  readonly hooks: Hooks
  /** UUID v4 (T-24). */
  newCallId(): string
  /** Unguessable, URL-safe. */
  newChallengeId(): string
  /** Base of the URLs we hand out, never taken from a request (T-16). */
  publicUrl(): string
  readonly running: RunningCalls
  readonly readiness: Readiness
  readonly keeper: OutcomeKeeper
  readonly maxResultBytes: number
}
