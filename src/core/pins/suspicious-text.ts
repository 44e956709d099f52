import type { OfferedTool } from '#core/ports/source'

/** Why a definition is not let in unseen; empty when nothing is wrong with its texts. */
export function suspicionsOf(_offered: OfferedTool): readonly string[] {
  return []
}
