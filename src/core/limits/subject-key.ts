import type { Principal } from '#core/principal'

interface Names {
  readonly own: string
  readonly withTool: Map<string, string>
}

/** Made once per principal object, which is the same for all calls with one credential: texts that are new are slow keys. */
const known = new WeakMap<Principal, Names>()

/** Different for different principals, whatever stands in a tenant's or a principal's name. */
export function subjectKey(principal: Principal): string {
  return namesOf(principal).own
}

/** The same for a principal and a tool; no base name holds a space. */
export function pairKey(principal: Principal, base: string): string {
  const { own, withTool } = namesOf(principal)
  const pair = withTool.get(base)
  if (pair !== undefined) return pair
  const made = `${base} ${own}`
  withTool.set(base, made)
  return made
}

function namesOf(principal: Principal): Names {
  const names = known.get(principal)
  if (names !== undefined) return names
  const { tenant, id } = principal
  const made = { own: `${tenant.length}:${tenant}${id}`, withTool: new Map() }
  known.set(principal, made)
  return made
}
