/**
 * Whether one of the granted scopes covers the needed one. Scopes are segments joined by `:`; a `*` segment
 * matches exactly one, a trailing `*` one or more.
 */
export function coversScope(granted: readonly string[], needed: string): boolean {
  return granted.some((pattern) => pattern === needed || (pattern.includes('*') && matches(pattern, needed)))
}

function matches(pattern: string, needed: string): boolean {
  const wanted = pattern.split(':')
  const given = needed.split(':')
  const openEnd = wanted.at(-1) === '*'
  if (openEnd ? given.length < wanted.length : given.length !== wanted.length) return false
  return wanted.every((segment, place) => segment === '*' || segment === given[place])
}
