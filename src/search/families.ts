import type { Catalog } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import { sourceToolkit } from '#kernel/tool/toolsets'

/**
 * The groups of tools that a caller sees: one per source, or several for a large source, by tag or by the first part of the
 * tools' names. A search without results returns them, and the description of the search tool lists them.
 */

export interface Family {
  readonly name: string
  readonly count: number
  /** Names of a few of its tools. */
  readonly examples: readonly string[]
}

/** A source with more tools than this is shown in parts. */
const MAX_WHOLE = 60
const MAX_EXAMPLES = 3

const KNOWN = new WeakMap<Catalog, readonly Family[]>()

/** Largest first. Computed once per catalog. */
export function familiesOf(catalog: Catalog): readonly Family[] {
  const known = KNOWN.get(catalog) ?? makeFamilies(catalog.latest())
  KNOWN.set(catalog, known)
  return known
}

function makeFamilies(tools: readonly Tool[]): readonly Family[] {
  const sources = Map.groupBy(tools, sourceToolkit)
  const families = [...sources].flatMap(([source, own]) => {
    if (own.length <= MAX_WHOLE) return [familyOf(source, own)]
    const parts = Map.groupBy(own, partOf)
    return parts.size > own.length / 2
      ? [familyOf(source, own)]
      : [...parts].map(([part, some]) => familyOf(part === '' ? source : `${source} ${part}`, some))
  })
  return families.sort((left, right) => right.count - left.count || (left.name < right.name ? -1 : 1))
}

function familyOf(name: string, tools: readonly Tool[]): Family {
  return { name, count: tools.length, examples: tools.slice(0, MAX_EXAMPLES).map((tool) => tool.name) }
}

function partOf({ tags = [], nativeName = '', parts }: Tool): string {
  const [tag] = tags
  if (tag !== undefined) return tag
  const [first = ''] = (nativeName || parts.base.slice(parts.toolkit.length + 1)).split(
    /[._/:-]|(?<=\p{Ll})(?=\p{Lu})/u,
  )
  return first
}
