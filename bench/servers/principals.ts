/** Sets of scopes that differ in what they show; every one shows almost the whole catalog. */
const SCOPE_SETS: readonly (readonly string[])[] = [[], ['group:0'], ['group:0', 'group:1'], ['group:*']]

export const DISTINCT_SCOPE_SETS = SCOPE_SETS.length
/** How many of the tools ask for a scope, each for its own. */
const ASKING_TOOLS = 3

/** The key of one of many callers; `digits` is its place, written with as many digits for all. */
export function principalKey(digits: string): string {
  return `bench-principal-${digits}-0123456789abcdef0123456789abcdef`
}

/** A scope that no tool asks for makes every caller's list its own, as lists of scopes are in life. */
export function principalScopes(index: number): readonly string[] {
  return [...(SCOPE_SETS[index % DISTINCT_SCOPE_SETS] ?? []), `own:${index}`]
}

export function scopesAskedBy(toolIndex: number): readonly string[] {
  return toolIndex < ASKING_TOOLS ? [`group:${toolIndex}`] : []
}
