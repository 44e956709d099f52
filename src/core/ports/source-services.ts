import type { Clock } from './clock.ts'
import type { Logger } from './logger.ts'

/** What a source gets when it is opened. */
export interface SourceServices {
  /** Guarded; may also reach the hosts that the source's options name, because the operator wrote them (rule 33). */
  readonly fetch: typeof fetch
  /**
   * The same way out for what describes tools, which may be larger than what a call may bring back (64 MiB unless
   * `egress.maxResponseBytes` says more); absent = `fetch`.
   */
  readonly fetchDescription?: typeof fetch
  readonly clock: Clock
  readonly log: Logger
  /** Relative paths in the options start here: the folder of the configuration. */
  readonly folder: string
  /** Variables of our own process. A source hands on a few harmless ones and those its options name, nothing else. */
  readonly environment?: Readonly<Record<string, string | undefined>>
}
