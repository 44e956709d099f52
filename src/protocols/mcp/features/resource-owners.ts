import type { Catalog } from '#kernel/tool/catalog'
import { innerUri } from '#protocols/mcp/codec-tool'
import type { EntryTables, ServedEntry } from './entry-tables.ts'

/*
 * Finds the entries that may have the resource at an address. Reading and subscribing use it.
 * Invariant: entries that the principal may not see have no resources (rule 2).
 */

interface ResourceOwners {
  /** The most likely one first. */
  readonly owners: readonly ServedEntry[]
  /** The address at the source, for entries of the kind `resources`. */
  readonly nativeUri: string
}

export function findOwners(uri: string, catalog: Catalog, tables: EntryTables): ResourceOwners {
  const page = catalog.hasNativeNames ? undefined : innerUri(uri)
  if (page?.toolkit === undefined) return { owners: ownersOf(uri, catalog, tables), nativeUri: uri }
  // The address of an app's page names its source (MCP-146).
  const owners = [...tables.of(catalog, 'resources').values()].filter(
    ({ tool }) => tool.parts.toolkit === page.toolkit,
  )
  return { owners, nativeUri: page.uri }
}

function ownersOf(uri: string, catalog: Catalog, tables: EntryTables): readonly ServedEntry[] {
  const own = [...tables.of(catalog, 'resource').values()].filter(({ entry }) => entry.definition.uri === uri)
  const templates = [...tables.of(catalog, 'template').values()]
    .map((served) => ({ served, matcher: templateMatcher(String(served.entry.definition.uriTemplate)) }))
    .filter(({ served, matcher }) => served.entry.hasAddress?.(uri) ?? matcher.matches(uri))
    .sort((left, right) => right.matcher.literals - left.matcher.literals)
    .map(({ served }) => served)
  return [...own, ...templates, ...tables.of(catalog, 'resources').values()]
}

/** Recognises addresses that may come from a URI template (RFC 6570). The server that offers the template checks them exactly. */
interface TemplateMatcher {
  matches(uri: string): boolean
  /** Number of characters outside of expressions: of two templates that match, the one with more is more likely. */
  readonly literals: number
}

const known = new Map<string, TemplateMatcher>()
const MAX_KNOWN = 10_000

function templateMatcher(template: string): TemplateMatcher {
  const found = known.get(template)
  if (found !== undefined) return found
  const made = makeMatcher(template)
  if (known.size >= MAX_KNOWN) known.clear()
  known.set(template, made)
  return made
}

/** Checks only that the literal texts around the expressions occur in order, without a regular expression, which could be slow. */
function makeMatcher(template: string): TemplateMatcher {
  const [first = '', ...rest] = template.split(/\{[^{}]*\}/)
  const last = rest.pop()
  return {
    literals: template.replaceAll(/\{[^{}]*\}/g, '').length,
    matches(uri) {
      if (last === undefined) return uri === first
      if (!uri.startsWith(first)) return false
      let at = first.length
      for (const text of rest) {
        const found = uri.indexOf(text, at)
        if (found === -1) return false
        at = found + text.length
      }
      return uri.length - last.length >= at && uri.endsWith(last)
    },
  }
}
