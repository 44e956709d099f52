import type { Catalog } from '#core/catalog'
import { nearestName } from '#core/nearest-name'
import type { ToolRef } from '#core/tool-id'

const MOST_COMPARED = 2_000

/** The next step for a caller that missed: another version, or a name that looks alike. From its own catalog only (rule 2). */
export function suggestTool(catalog: Catalog, asked: ToolRef): string {
  const versions = catalog.versionsOf(asked.base)
  if (versions.length > 0) {
    return ` Versions served: ${versions.map((tool) => tool.parts.version).join(', ')}.`
  }
  const near = nearestName(asked.base, catalog.bases().slice(0, MOST_COMPARED))
  return near === undefined ? ' List the tools to see what is served.' : ` Did you mean '${near}'?`
}
