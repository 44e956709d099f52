import type { Catalog } from '#core/catalog'
import { nearestName } from '#core/nearest-name'
import type { Tool } from '#core/tool'
import type { ToolRef } from '#core/tool-id'

const MOST_COMPARED = 2_000

/** The next step for a caller that missed: another version, or a name that looks alike. From its own catalog only (rule 2). */
export function suggestTool(catalog: Catalog, asked: ToolRef): string | undefined {
  const versions = catalog.versionsOf(asked.base)
  if (versions.length > 0) {
    return `Versions served: ${versions.map((tool) => tool.parts.version).join(', ')}.`
  }
  const near = nearestTool(catalog, asked)
  return near === undefined ? undefined : `Did you mean '${near}'?`
}

/** In the spelling that was asked in. */
function nearestTool(catalog: Catalog, { base, isOtherName }: ToolRef): string | undefined {
  if (isOtherName === undefined) return nearestName(base, catalog.bases().slice(0, MOST_COMPARED))
  const spell = base.includes(':') ? ({ catalogId }: Tool) => catalogId : ({ name }: Tool) => name
  return nearestName(base, catalog.latest().slice(0, MOST_COMPARED).map(spell))
}
