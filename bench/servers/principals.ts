/** Sets of scopes that each select a different, almost complete catalog. */
const SCOPE_SETS: readonly (readonly string[])[] = [[], ['group:0'], ['group:0', 'group:1'], ['group:*']]

export const DISTINCT_SCOPE_SETS = SCOPE_SETS.length
/** Number of tools that require a scope; each requires a different one. */
const SCOPED_TOOLS = 3

/** The key of one of many callers; `digits` is the caller's number, padded to a fixed length. */
export function principalKey(digits: string): string {
  return `bench-principal-${digits}-0123456789abcdef0123456789abcdef`
}

/** A scope that no tool requires makes every caller's list of scopes unique, as in practice. */
export function principalScopes(index: number): readonly string[] {
  return [...(SCOPE_SETS[index % DISTINCT_SCOPE_SETS] ?? []), `own:${index}`]
}

export function requiredScopes(toolIndex: number): readonly string[] {
  return toolIndex < SCOPED_TOOLS ? [`group:${toolIndex}`] : []
}
