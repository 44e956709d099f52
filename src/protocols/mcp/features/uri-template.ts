/*
 * Finds out whether an address may come from a URI template (RFC 6570). The resources feature chooses the entry to read from
 * with it; the server that offers the template expands and checks it.
 */

interface TemplateMatcher {
  matches(uri: string): boolean
  /** Characters outside of expressions: of two templates that match, the one with more is the likelier. */
  readonly literals: number
}

const known = new Map<string, TemplateMatcher>()
const MAX_KNOWN = 10_000

export function templateMatcher(template: string): TemplateMatcher {
  const found = known.get(template)
  if (found !== undefined) return found
  const made = makeMatcher(template)
  if (known.size >= MAX_KNOWN) known.clear()
  known.set(template, made)
  return made
}

/** The texts around the expressions must occur in their order, from the beginning to the end: no pattern, so never slow. */
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
