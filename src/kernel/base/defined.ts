/*
 * Builds records with optional members: `exactOptionalPropertyTypes` forbids `undefined` as a value of one.
 * Used where requests, answers and options are put together, not on the path of every call.
 * Invariant: the type of the result says which members may be absent.
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
