import type { JsonObject } from '#core/json'
import type { OfferedTool } from '#core/ports/source'

/** A definition that may be put before agents: pinned at first sight or accepted since. */
export interface PinnedTool {
  readonly offered: OfferedTool
  /** Who the upstream was when it was pinned. */
  readonly identity: JsonObject
  readonly version: string
  /** Why it does not run until an operator decides (rule 32). */
  readonly suspended?: string
}
