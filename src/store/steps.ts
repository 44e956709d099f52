import type { Row, Steps } from '#kernel/store/engine'
import { text } from '#kernel/store/rows'

/*
 * Steps and rows as most store modules read them: the converted answer to one statement, and text columns under their
 * own names. Statements that every call needs use the kernel's functions directly.
 */

/** A page of a list. Without a tenant it contains rows of every tenant, for operators. */
export interface TenantPage {
  readonly tenant?: string | null
  readonly limit: number
}

/** Who makes a change, and when; journaled. */
export interface Attribution {
  readonly by: string
  readonly atMs: number
}

/** Steps that convert the result of other steps. */
export function* mapped<From, To>(steps: Steps<From>, convert: (result: From) => To): Steps<To> {
  return convert(yield* steps)
}

/** The values of text columns, by column. */
export function texts<Column extends string>(
  row: Row,
  ...columns: readonly Column[]
): Readonly<Record<Column, string>>
export function texts(row: Row, ...columns: readonly string[]) {
  return Object.fromEntries(columns.map((column) => [column, text(row, column)]))
}
