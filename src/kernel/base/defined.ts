/*
 * Builds records with optional members, whose values must not be `undefined` under `exactOptionalPropertyTypes`.
 * Used where requests, answers and options are assembled, but not in code that runs for every call.
 * Invariant: the result's type states which members may be absent.
 */

type Defined<Members> = {
  [Name in keyof Members as undefined extends Members[Name] ? never : Name]: Members[Name]
} & {
  [Name in keyof Members as undefined extends Members[Name] ? Name : never]?: Exclude<
    Members[Name],
    undefined
  >
}

/** The members that are not `undefined`. */
export function defined<const Members extends object>(members: Members): Defined<Members>
export function defined(members: object): object {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))
}
