import type { JsonObject } from '#core/json'
import type { OfferedTool } from '#core/ports/source'

/** A definition that an operator, or first sight, let in: what agents see and calls run on (rule 32). */
export interface PinnedTool {
  readonly offered: OfferedTool
  /** Who the upstream was when it was accepted. */
  readonly identity: JsonObject
  readonly version: string
  /** `pinHash` of the two above, where it is known already. */
  readonly hash?: string
  /** Its name in the id, given at first sight and kept; made from the native name where absent. */
  readonly local?: string
  /** Why calls are refused until an operator decides; absent for a tool that runs. */
  readonly suspended?: string
}
